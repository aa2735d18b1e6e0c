"""Documentation, help, errors and pages read as easily as the guides they are measured against.

The figures are in tests/support/prose.py, and the texts outside the documentation in tests/support/texts.py.
"""

from pathlib import Path

import pytest

from tests.support import prose, texts
from tests.support.prose import Prose

ROOT = Path(__file__).parents[2]
EXEMPT = ("docs/proofs/", "docs/decisions/", "docs/spec/")  # for readers of the papers, and records of their time
PAGES = [
    name
    for page in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
    if not (name := page.relative_to(ROOT).as_posix()).startswith(EXEMPT)
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_reads_easily(page: str) -> None:
    reads_easily(prose.of_markdown((ROOT / page).read_text()))


@pytest.mark.parametrize("kind", texts.KINDS)
def test_help_errors_descriptions_and_pages_read_easily(kind: str) -> None:
    reads_easily(texts.KINDS[kind]())


def reads_easily(prose_of_kind: Prose) -> None:
    assert prose_of_kind.sentences
    assert prose_of_kind.mean_words <= prose.MEAN_WORDS
    assert prose_of_kind.share(prose_of_kind.long) <= prose.LONG_SHARE, prose_of_kind.long
    assert prose_of_kind.share(prose_of_kind.odd_openings) <= prose.ODD_OPENING_SHARE, prose_of_kind.odd_openings
    assert prose_of_kind.share(prose_of_kind.punctuated) <= prose.PUNCTUATED_SHARE, prose_of_kind.punctuated
    assert prose_of_kind.house_words == []


def test_each_figure_finds_the_sentence_that_breaks_its_rule() -> None:
    long = "Many" + " words" * prose.LONG_WORDS + "."
    odd = "What is stored is short. Is it? A list: one; two. Nobody is told."
    text = f"{odd} {long}\n\n```\nIt is code; not prose.\n```\n"
    figures = prose.of_markdown(text)
    assert len(figures.sentences) == 5
    assert figures.long == [long]
    assert figures.odd_openings == ["What is stored is short.", "Nobody is told."]
    assert figures.punctuated == ["A list: one; two."]
    assert figures.house_words == ["Nobody", "is told"]


def test_cells_that_are_sentences_count_and_labels_do_not() -> None:
    table = "| name | meaning |\n| --- | --- |\n| `a` | The number of records in the dataset. |\n"
    assert prose.of_markdown(table).sentences == ("The number of records in the dataset.",)


def test_code_within_a_sentence_is_one_word() -> None:
    assert prose.of_markdown("Call `job.result(wait=True); then`.").sentences == ("Call `code`.",)
