"""docs/faq.md names error codes that exist, and docs/glossary.md is in order and short."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from app.http.codes import CODES
from app.pages.frame import GLOSSARY as TERMS
from tests.support import prose

DOCS = Path(__file__).parents[2] / "docs"
NOT_FOR_USERS = ("architecture.md", "errors.md", "releasing.md", "reviewing.md", "threat-tests.md")
USER_PAGES = [
    page
    for page in (*DOCS.parent.glob("[RS]E*.md"), *sorted(DOCS.glob("*.md")), *sorted((DOCS / "how-to").glob("*.md")))
    if page.name not in (*NOT_FOR_USERS, "glossary.md")
]
# Terms that readers do not know from elsewhere, and the pages that use the word in another meaning.
LINKED_TERMS: dict[str, tuple[str, ...]] = {
    "allotment": (),
    "epoch file": (),
    "family": (),
    "filter": ("comparison.md",),
    "forecast": (),
    "grant": (),
    "holdout set": (),
    "ledger": (),
    "profile": (),
    "public sample": (),
    "public twin": (),
    "quote": ("files.md",),
    "receipt": (),
    "regression table": (),
    "session": ("comparison.md", "cookbook.md", "sign-on.md", "threat-model.md"),
    "tuning": (),
}
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


@pytest.mark.parametrize("term", LINKED_TERMS)
def test_a_page_that_uses_a_term_links_or_explains_it(term: str) -> None:
    pages = [page for page in USER_PAGES if page.name not in LINKED_TERMS[term]]
    assert [page.name for page in pages if not _explains(page.read_text(), term)] == []


def test_a_term_without_a_link_is_found() -> None:
    assert not _explains("# Page\n\nEvery charge is in a ledger.\n", "ledger")
    assert not _explains("A [ledger](auditing.md) and another ledger.\n", "ledger")
    assert _explains("Every charge is in a [ledger](glossary.md#ledger). The ledger is a chain.\n", "ledger")
    assert _explains("## Ledgers\n\nA ledger is a chain.\n", "ledger")
    assert _explains("Run `purse ledger verify`.\n", "ledger")


def _explains(page: str, term: str) -> bool:
    """Return whether a page does not use a term, or has a section, or a link to a page or section, of its name."""
    text = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    headings = " ".join(re.findall(r"^#+ (.*)", text, re.MULTILINE)).lower()
    targets = re.findall(r"\]\(([^)]*)\)", text)
    prose_of_page = re.sub(r"`[^`]*`|\[[^\]]*\]\([^)]*\)|^#[^\n]*$", "", text, flags=re.MULTILINE)
    stem = term.removesuffix("y")  # families
    if stem in headings or any(stem.replace(" ", "-") in target for target in targets):
        return True
    return not re.search(rf"\b{term}s?\b".replace(" ", r"\s"), prose_of_page, re.IGNORECASE)


def test_an_entry_is_a_few_sentences() -> None:
    entries = re.split(r"^## .*\n", GLOSSARY, flags=re.MULTILINE)[1:]
    assert [entry for entry in entries if len(prose.of_markdown(entry).sentences) > LONGEST_ENTRY_SENTENCES] == []


@pytest.mark.parametrize("term", TERMS)
def test_the_pages_explain_a_term_in_the_words_of_the_glossary(term: str) -> None:
    sections = re.split(r"^## ", GLOSSARY, flags=re.MULTILINE)
    [section] = [part for part in sections if part.partition("\n")[0].lower() == term]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", section.partition("\n")[2]).replace("`", "")
    assert " ".join(text.split()).startswith(TERMS[term])
