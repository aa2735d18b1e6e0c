"""docs/faq.md names error codes that exist, and docs/glossary.md is in order and short."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from app.http.codes import CODES
from app.pages.glossary import GLOSSARY as TERMS
from tests.support import prose

DOCS = Path(__file__).parents[2] / "docs"
FAQ = (DOCS / "faq.md").read_text()
GLOSSARY = (DOCS / "glossary.md").read_text()
LONGEST_ENTRY_SENTENCES = 4  # three that explain, and a reference


def test_every_error_code_in_a_heading_exists() -> None:
    headings = re.findall(r"^### (.*)", FAQ, re.MULTILINE)
    named = [code for heading in headings for code in re.findall(r"`([a-z]+(?:_[a-z]+)*)`", heading)]
    assert len(named) > 12
    assert [code for code in named if code not in CODES] == []


def test_every_symptom_has_a_cause_and_a_fix() -> None:
    parts = re.split(r"^### .*\n", FAQ, flags=re.MULTILINE)[1:]
    assert [part for part in parts if ("*Cause.*" in part) != ("*Fix.*" in part)] == []


def test_terms_are_in_alphabetical_order() -> None:
    terms = [term.lower() for term in re.findall(r"^## (.*)", GLOSSARY, re.MULTILINE)]
    assert len(terms) > 40
    assert [(first, second) for first, second in pairwise(terms) if first >= second] == []


def test_an_entry_is_a_few_sentences() -> None:
    entries = re.split(r"^## .*\n", GLOSSARY, flags=re.MULTILINE)[1:]
    assert [entry for entry in entries if len(prose.of_markdown(entry).sentences) > LONGEST_ENTRY_SENTENCES] == []


@pytest.mark.parametrize("term", TERMS)
def test_the_pages_explain_a_term_in_the_words_of_the_glossary(term: str) -> None:
    sections = re.split(r"^## ", GLOSSARY, flags=re.MULTILINE)
    [section] = [part for part in sections if part.partition("\n")[0].lower() == term]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section.partition("\n")[2]).replace("`", "")
    assert " ".join(text.split()).startswith(TERMS[term])
