"""Measure how easily prose reads: sentence length, openings, punctuation and words that only this project uses.

    python -m tests.support.prose README.md docs/*.md     # a line per page, then the sentences to rewrite

`Prose` holds the figures of one text. `tests/docs/test_prose.py` compares them with the limits below.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt

# Limits for user documentation, at the level of the httpx and datasette guides.
MEAN_WORDS = 16.0
LONG_SHARE = 0.05
ODD_OPENING_SHARE = 0.02
PUNCTUATED_SHARE = 0.12

LONG_WORDS = 30  # a sentence with more words counts as long
SHORTEST_CELL_WORDS = 6  # a table cell with fewer words is a label, not a sentence

_ODD_OPENING = re.compile(
    r"(?:What|Who|Whoever|Whom|Whose|Nobody|None|Nor|Neither|It|That|Such|Told|So|Of|Where|One)\b", re.ASCII
)
_QUESTION = re.compile(r"\?[\"')\]]*$")
_INNER_PUNCTUATION = re.compile(r";|:(?=\s+\S)")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[`]*[A-Z0-9`])")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_'’.,%/^*=-]*")

# Words and turns of this project's own, each with what the field says instead (WRITING.md, rules 4 and 7).
HOUSE_WORDS = {
    r"\bkept[- ]out\b": "holdout set",
    r"\b(?:is|are|was|were|be|being) told\b": "is returned, is reported, is visible to",
    r"\btold (?:of|by|from|to)\b": "reported, shown",
    r"\bnobody\b": "say who cannot",
    r"\bwhoever\b": "anyone who, a person who",
    r"(?-i:\bis none\b)": "is not a ...",
    r"\bis no (?!longer)\w+\b": "is not a ...",
    r"(?-i:\b(?:are|have|has) none\b)": "do not have",
    r"\basks? (?:for )?(?:nobody|nothing|none)\b": "loads nothing, makes no request",
    r"\bowes?\b": "must",
    r"\bthe doors?\b": "oracle",
    r"\bthe house\b": "the project, the structure",
    r"\bbeforehand\b": "before",
    r"\banew\b": "again",
    r"\bof before\b": "earlier, previous",
    r"\bas it were\b": "leave out",
    r"\bsays? so\b": "reports it",
    r"\bsays? (?:how|what|which|who|why)\b": "states, shows, explains",
    r"\bheld to\b": "checked against",
    r"\bis to be had\b": "is available",
    r"\bto be had\b": "available",
    r"\bby itself alone\b": "alone",
    r"\bflatters?\b": "is optimistic",
    r"\bpromis(?:e|es|ed)\b": "guarantee (privacy) or contract (API)",
    r"\bone's own\b": "their own",
    r"\bthat is all\b": "leave out",
    r"\bin the place of\b": "instead of",
}
_HOUSE = re.compile("|".join(f"(?:{pattern})" for pattern in HOUSE_WORDS), re.IGNORECASE)


@dataclass(frozen=True)
class Prose:
    """Figures of one text: its sentences, and those that break a rule."""

    sentences: tuple[str, ...]

    @property
    def words(self) -> int:
        """Number of words in the text."""
        return sum(_length(sentence) for sentence in self.sentences)

    @property
    def mean_words(self) -> float:
        """Mean number of words in a sentence."""
        return self.words / max(len(self.sentences), 1)

    @property
    def long(self) -> list[str]:
        """Sentences of more than LONG_WORDS words."""
        return [sentence for sentence in self.sentences if _length(sentence) > LONG_WORDS]

    @property
    def odd_openings(self) -> list[str]:
        """Statements that begin with a bare pronoun or relative word; questions may."""
        return [
            sentence
            for sentence in self.sentences
            if _ODD_OPENING.match(sentence.lstrip("\"'(*_")) and not _QUESTION.search(sentence)
        ]

    @property
    def punctuated(self) -> list[str]:
        """Sentences with a semicolon, or a colon that more text of the sentence follows."""
        return [sentence for sentence in self.sentences if _INNER_PUNCTUATION.search(sentence)]

    @property
    def house_words(self) -> list[str]:
        """Words and turns that only this project uses."""
        return [match.group() for sentence in self.sentences for match in _HOUSE.finditer(sentence)]

    def share(self, faulty: list[str]) -> float:
        """Return the share of these sentences among all."""
        return len(faulty) / max(len(self.sentences), 1)

    def __str__(self) -> str:
        """Return the five figures on one line."""
        return (
            f"{len(self.sentences):5d} sentences  mean {self.mean_words:4.1f}  long {self.share(self.long):6.1%}"
            f"  odd {self.share(self.odd_openings):6.1%}  ; or : {self.share(self.punctuated):6.1%}"
            f"  house words {len(self.house_words)}"
        )


def of_markdown(text: str) -> Prose:
    """Return the figures of a Markdown page: paragraphs, list items and table cells; not code, not headings."""
    return Prose(tuple(sentence for block in _blocks(text) for sentence in sentences(block)))


def of_texts(texts: Iterable[str]) -> Prose:
    """Return the figures of separate texts, such as error messages or the lines of a command's help."""
    return Prose(tuple(sentence for text in texts for sentence in sentences(text)))


def sentences(text: str) -> list[str]:
    """Split a text into sentences."""
    folded = " ".join(text.split())
    return [part for part in _SENTENCE_END.split(folded) if _WORD.search(part)]


def _blocks(text: str) -> Iterator[str]:
    """Yield the text of each paragraph, list item and table cell; inline code counts as one word."""
    in_heading = in_cell = False
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        match token.type:
            case "heading_open" | "heading_close":
                in_heading = token.nesting == 1
            case "td_open" | "th_open" | "td_close" | "th_close":
                in_cell = token.nesting == 1
            case "inline" if not in_heading:
                content = "".join(_plain(child.type, child.content) for child in token.children or ())
                if not in_cell or _length(content) >= SHORTEST_CELL_WORDS:
                    yield content


def _plain(kind: str, content: str) -> str:
    """Return what a reader sees of one inline element."""
    match kind:
        case "text":
            return content
        case "code_inline":
            return "`code`"
        case "softbreak" | "hardbreak":
            return " "
        case _:
            return ""


def _length(sentence: str) -> int:
    return len(_WORD.findall(sentence))


def main(paths: list[str]) -> None:
    """Print the figures of each page, then the sentences to rewrite."""
    for path in paths:
        prose = of_markdown(Path(path).read_text())
        print(f"{path:40s} {prose}")
        if len(paths) == 1:
            print_faults(prose)


def print_faults(prose: Prose) -> None:
    """Print the sentences to rewrite."""
    for name in ("long", "odd_openings", "punctuated", "house_words"):
        print(f"\n{name}:", *getattr(prose, name), sep="\n  ")


if __name__ == "__main__":
    main(sys.argv[1:])
