"""Run the console sessions that pages show, and compare the outputs.

Each line must begin with the word that is shown. A line without numbers, such as the heading of a table, must have the
same words. Each (epsilon, delta) must be the same, because it does not depend on noise. New ids, hashes and tokens
replace those shown. Indented lines continue a long value and are not compared.
"""

import os
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from app.cli import main
from tests.support.patience import PATIENCE

IDENTIFIERS = re.compile(r"\b(?:job|ds|rcpt|tok|hook)_[a-z0-9]{20}\b|\b\d+:[0-9a-f]{64}\b|(?<![\w-])[\w-]{43}(?![\w-])")
_TOKEN = re.compile(r"\bpurse_[\w-]{43}(?![\w-])")
_NUMBER = re.compile(r"\d|–|not resolved")  # a dash and these words stand for numbers that were not released
EXAMPLE_URL = "http://127.0.0.1:8000"
LOSS = re.compile(r"epsilon [\d.]+ at delta \S+")


@dataclass(frozen=True, slots=True)
class Session:
    """A reader's session in the working directory."""

    capsys: pytest.CaptureFixture[str]
    identifiers: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, expected_output: str) -> str:
        """Run a command, and return its output, whose lines and exit code must be as shown."""
        command = self._with_own_identifiers(command)
        if not command.startswith("purse "):
            completed = subprocess.run(["bash", "-c", command], check=True, timeout=PATIENCE, env=os.environ, stdout=-1)
            return completed.stdout.decode()
        command, _, file = command.partition(" > ")
        with pytest.raises(SystemExit) as exit_info:
            main(shlex.split(command)[1:])
        captured = self.capsys.readouterr()
        output = (captured.out + captured.err).replace(os.environ["PURSE_URL"], EXAMPLE_URL)
        if file:
            Path(file).write_text(output)
            output = ""
        refused = re.search(r"^purse: ", expected_output, re.MULTILINE)
        assert exit_info.value.code == (1 if refused else 0), (command, output)
        if "--json" not in command:
            assert heads(output) == heads(expected_output), command
            assert LOSS.findall(output) == LOSS.findall(expected_output), (
                command,
                LOSS.findall(output),
                LOSS.findall(expected_output),
            )
            for name, actual in zip(IDENTIFIERS.findall(expected_output), IDENTIFIERS.findall(output), strict=True):
                self.identifiers.setdefault(name, actual)
        return output

    def _with_own_identifiers(self, text: str) -> str:
        return IDENTIFIERS.sub(lambda match: self.identifiers.get(match[0], match[0]), text)


def heads(text: str) -> list[str]:
    """Return the first word of each line that is not indented, or all words if no number is in the line."""
    text = _TOKEN.sub("purse_...", IDENTIFIERS.sub("made", text))
    lines = [line for line in text.splitlines() if line.strip() and line[0] != " "]
    return [" ".join(line.split()[: 1 if _NUMBER.search(line) else None]) for line in lines]
