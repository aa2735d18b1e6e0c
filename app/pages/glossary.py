"""Short explanations of the technical terms on the pages, in the words of docs/glossary.md."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

GLOSSARY: Final[Mapping[str, str]] = json.loads(Path(__file__).with_name("glossary.json").read_text("utf-8"))
