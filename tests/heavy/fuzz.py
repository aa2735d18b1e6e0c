"""`python -m tests.heavy.fuzz [SECONDS] [SEED]`: the whole interface fuzzed for so long; 1 if anything was found."""

import secrets
import sys
import tempfile
from pathlib import Path

from tests.service.conftest import running_service
from tests.support.fuzz import fuzz


def main(seconds: int = 600, seed: int | None = None) -> int:
    """Print the number of requests, the answers by status, and the failures."""
    seed = secrets.randbits(32) if seed is None else seed
    with tempfile.TemporaryDirectory() as folder, running_service(Path(folder) / "home") as service:
        outcome = fuzz(service, seed, examples=200, seconds=seconds)
    print(f"seed {seed}: {outcome.calls.total()} requests in {seconds} s")
    for kind, counts in (("phase", outcome.calls), ("answer", outcome.statuses)):
        print(f"by {kind}:", ", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    for failure, sample in outcome.failures.items():
        print(f"\n{failure}\n{sample}")
    print(f"{len(outcome.failures)} found")
    return bool(outcome.failures)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
