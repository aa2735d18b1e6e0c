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

MADE = re.compile(r"\b(?:job|ds|rcpt|tok|hook)_[a-z0-9]{20}\b|\b\d+:[0-9a-f]{64}\b|(?<![\w-])[\w-]{43}(?![\w-])")
_TOKEN = re.compile(r"\bpurse_[\w-]{43}(?![\w-])")
_NUMBER = re.compile(r"\d|–|not resolved")  # a dash and these words stand for numbers that were not released
SHOWN = "http://127.0.0.1:8000"
LOSS = re.compile(r"epsilon [\d.]+ at delta \S+")


@dataclass(frozen=True, slots=True)
class Session:
    """One reader's, in the working directory."""

    capsys: pytest.CaptureFixture[str]
    made: dict[str, str] = field(default_factory=dict)

    def run(self, command: str, shown: str) -> str:
        """What it said; it is as shown, and ends with 1 where a refusal is shown."""
        command = self._as_made(command)
        if not command.startswith("purse "):
            done = subprocess.run(["bash", "-c", command], check=True, timeout=PATIENCE, env=os.environ, stdout=-1)
            return done.stdout.decode()
        command, _, file = command.partition(" > ")
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(command)[1:])
        captured = self.capsys.readouterr()
        said = (captured.out + captured.err).replace(os.environ["PURSE_URL"], SHOWN)
        if file:
            Path(file).write_text(said)
            said = ""
        refused = re.search(r"^purse: ", shown, re.MULTILINE)
        assert ended.value.code == (1 if refused else 0), (command, said)
        if "--json" not in command:
            assert heads(said) == heads(shown), command
            assert LOSS.findall(said) == LOSS.findall(shown), (command, LOSS.findall(said), LOSS.findall(shown))
            for name, made in zip(MADE.findall(shown), MADE.findall(said), strict=True):
                self.made.setdefault(name, made)
        return said

    def _as_made(self, text: str) -> str:
        return MADE.sub(lambda found: self.made.get(found[0], found[0]), text)


def heads(text: str) -> list[str]:
    """Return the first word of each line that is not indented, or all words if no number is in the line."""
    text = _TOKEN.sub("purse_...", MADE.sub("made", text))
    lines = [line for line in text.splitlines() if line.strip() and line[0] != " "]
    return [" ".join(line.split()[: 1 if _NUMBER.search(line) else None]) for line in lines]
