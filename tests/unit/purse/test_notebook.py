"""What a notebook shows: a cell's last value is one line, keeps no secret, and an error says what would have fitted."""

from typing import Any

import pytest

from purse import Client, ProblemError
from purse.frames import columns
from tests.support.live import live
from tests.support.patience import PATIENCE
from tests.support.service import SPEC, people


@pytest.mark.slow
def test_the_last_value_of_a_notebook_cell_is_one_line_without_secrets(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """People store and share notebooks together with the output of their cells."""
    file = tmp_path_factory.mktemp("file") / "people.csv"
    file.write_bytes(people())
    with (
        live(tmp_path_factory.mktemp("notebook") / "home") as server,
        Client(server.url, server.token, timeout=PATIENCE) as client,
    ):
        dataset = client.datasets.upload(file, spec=SPEC)
        token = client.tokens.create("ada", "analyst")
        quote = client.quote(dataset="people", target="income", privacy=0.25)
        job = client.jobs.submit(dataset="people", method="counts", columns=["sex"], privacy=0.25)
        job.wait()
        counts, receipt = job.statistic(), job.receipt()
        budget = client.datasets.budget(dataset)
        for value in (dataset, client.datasets.list(), token, quote, job.job, counts, receipt, budget):
            line = repr(value)
            assert len(line) < 200, line
            assert "\n" not in line
            assert token.token not in line
        assert repr(dataset) == f"<dataset people, {dataset.id}: {dataset.rows:,} rows, 3 columns>"
        assert repr(quote).startswith("<quote: epsilon 0.25 at delta ")
        assert f"may use epsilon {budget.remaining.epsilon:.4g}>" in repr(budget)
        with pytest.raises(ProblemError) as refused:
            client.jobs.submit(dataset="people", target="income", privacy=50)
        assert f". The most that fits is epsilon {budget.remaining.epsilon:.4g} at delta " in str(refused.value)


@pytest.mark.parametrize("rows", [[1, 2], "age", {3: "a"}.values(), [{"age": 1}, "age"]])
def test_the_error_about_rows_that_are_not_a_table_names_the_accepted_form(rows: Any) -> None:
    """An example is a row of a frame, which is a list of values."""
    with pytest.raises(ValueError, match="list of mappings"):
        columns(rows)
