"""`purse ...` in this process."""

import pytest

from app.cli import main


def purse(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command, and return its exit code, output and error output, without earlier output."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(arguments)
    captured = capsys.readouterr()
    return int(exit_info.value.code or 0), captured.out, captured.err
