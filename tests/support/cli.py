"""`purse ...` in this process."""

import pytest

from app.cli import main


def purse(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Runs the command: (exit code, stdout, stderr), without what was said before."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err
