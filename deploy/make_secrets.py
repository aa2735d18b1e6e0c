"""Create the secrets of compose.yaml and deploy/kubernetes: passwords, tokens, and certificates.

The folder can be entered by its owner only. Existing files stay as they are. The command `purse` must be on PATH.

    python deploy/make_secrets.py [FOLDER] [HOST-OF-THE-DATABASE]
"""

import secrets
import shutil
import subprocess
import sys
from pathlib import Path


def main(folder: str = str(Path(__file__).parent / "secrets"), host: str = "database") -> None:
    purse = shutil.which("purse")
    if purse is None:
        sys.exit(
            "make_secrets.py: The command `purse`, which creates certificates, is not on PATH. No file was written. "
            "Install privy-purse, or add its environment to PATH: PATH=$PWD/.venv/bin:$PATH"
        )
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    target.chmod(0o700)
    for name in ("postgres-password", "PURSE_BOOTSTRAP_TOKEN", "PURSE_METRICS_TOKEN"):
        _write_new(target / name, secrets.token_hex(32))
    password = (target / "postgres-password").read_text()
    _write_new(target / "PURSE_DATABASE_URL", f"postgresql://purse:{password}@{host}/purse")
    for name in ("server", "scheduler", "worker"):
        if not (target / f"{name}.pem").exists():
            subprocess.run([purse, "worker", "certificate", "--out", target, name], check=True)
    for file in target.iterdir():  # containers mount each file for a user with another id; ca-key.pem is never mounted
        file.chmod(0o600 if file.name == "ca-key.pem" else 0o644)


def _write_new(file: Path, content: str) -> None:
    if not file.exists():
        file.write_text(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
