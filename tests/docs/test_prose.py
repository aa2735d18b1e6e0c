"""Documentation, help, errors and pages read as easily as the guides they are measured against.

The figures are in tests/support/prose.py, and the texts outside the documentation in tests/support/texts.py.
"""

from pathlib import Path

import pytest

from tests.support import prose, texts
from tests.support.prose import Prose

ROOT = Path(__file__).parents[2]
PAGES: tuple[str, ...] = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/addresses.md",
    "docs/architecture.md",
    "docs/auditing.md",
    "docs/benchmarks/admitted.md",
    "docs/benchmarks/coded.md",
    "docs/benchmarks/erm_revisited.md",
    "docs/benchmarks/forecast.md",
    "docs/benchmarks/growth.md",
    "docs/benchmarks/inference.md",
    "docs/benchmarks/load.md",
    "docs/benchmarks/nonsmooth.md",
    "docs/benchmarks/ours.md",
    "docs/benchmarks/partitions.md",
    "docs/benchmarks/peers.md",
    "docs/benchmarks/quotes.md",
    "docs/benchmarks/README.md",
    "docs/benchmarks/start.md",
    "docs/benchmarks/tightness.md",
    "docs/benchmarks/trials.md",
    "docs/benchmarks/wide.md",
    "docs/commands.md",
    "docs/comparison.md",
    "docs/concepts.md",
    "docs/cookbook.md",
    "docs/datasets.md",
    "docs/errors.md",
    "docs/estimators.md",
    "docs/faq.md",
    "docs/files.md",
    "docs/forecasts.md",
    "docs/glossary.md",
    "docs/how-to/analyst.md",
    "docs/how-to/fit.md",
    "docs/how-to/integrations.md",
    "docs/how-to/operator.md",
    "docs/how-to/regression.md",
    "docs/how-to/steward.md",
    "docs/how-to/tuning.md",
    "docs/http.md",
    "docs/jobs.md",
    "docs/limits.md",
    "docs/methods/ada_ssp.md",
    "docs/methods/adaptive_gd.md",
    "docs/methods/bootstrap_reduction.md",
    "docs/methods/dp_acc_md.md",
    "docs/methods/dp_gd.md",
    "docs/methods/dp_svrg.md",
    "docs/methods/dp_svrg_pp.md",
    "docs/methods/epoch_growth.md",
    "docs/methods/growth_reduction.md",
    "docs/methods/inverse_sensitivity.md",
    "docs/methods/localization.md",
    "docs/methods/noisy_mirror_descent.md",
    "docs/methods/noisy_sgd.md",
    "docs/methods/objective_perturbation.md",
    "docs/methods/output_perturbation.md",
    "docs/methods/phased_sgd.md",
    "docs/methods/README.md",
    "docs/operations.md",
    "docs/pages.md",
    "docs/partitions.md",
    "docs/python.md",
    "docs/releasing.md",
    "docs/reviewing.md",
    "docs/settings.md",
    "docs/sharp-edges.md",
    "docs/sign-on.md",
    "docs/threat-model.md",
    "docs/trust.md",
    "docs/tutorial.md",
    "docs/webhooks.md",
    "README.md",
    "SECURITY.md",
)


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
