"""Makes what compose.yaml and deploy/kubernetes read as secrets: passwords, tokens, the channel's certificates.

In a folder that its owner alone can enter. Needs `purse`. What is there already stays as it is.

    python deploy/make_secrets.py [FOLDER] [HOST-OF-THE-DATABASE]
"""

import secrets
import subprocess
import sys
from pathlib import Path


def main(folder: str = str(Path(__file__).parent / "secrets"), host: str = "database") -> None:
    into = Path(folder)
    into.mkdir(parents=True, exist_ok=True)
    into.chmod(0o700)
    for name in ("postgres-password", "PURSE_BOOTSTRAP_TOKEN", "PURSE_METRICS_TOKEN"):
        _fresh(into / name, secrets.token_hex(32))
    password = (into / "postgres-password").read_text()
    _fresh(into / "PURSE_DATABASE_URL", f"postgresql://purse:{password}@{host}/purse")
    for name in ("server", "scheduler", "worker"):
        if not (into / f"{name}.pem").exists():
            subprocess.run(["purse", "worker", "certificate", "--out", into, name], check=True)
    for file in into.iterdir():  # an engine mounts them one by one, for a user of another number; that one never
        file.chmod(0o600 if file.name == "ca-key.pem" else 0o644)


def _fresh(file: Path, content: str) -> None:
    if not file.exists():
        file.write_text(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
