"""The fenced blocks of a Markdown page, and the commands and outputs of its console sessions."""

import re
from pathlib import Path

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STEP = re.compile(r"^\$ (.*<<'END'\n(?:.*\n)*?END|.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def blocks(page: Path, language: str) -> list[str]:
    """Return the text of a page's blocks in one language."""
    return [text for named, text in BLOCK.findall(page.read_text()) if named == language]


def steps(page: Path) -> list[tuple[str, str]]:
    """Return each command of a page's console sessions with the output that follows it."""
    return [step for block in blocks(page, "console") for step in STEP.findall(block)]


def commands(session: str) -> str:
    """Return the commands of a console session, one a line, without prompts and outputs."""
    return "\n".join(command for command, _ in STEP.findall(session.rstrip("\n") + "\n"))
