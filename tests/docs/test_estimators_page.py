"""The examples of docs/estimators.md and of the guide to regression tables run as they stand."""

import re
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "estimators.md").read_text()


@pytest.mark.slow
def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("sklearn", "pandas"):
        pytest.importorskip(library, reason=f"{library} is not installed: the example of estimators is not run")
    code, columns, curved = re.findall(r"```python\n(.+?)```", PAGE, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "estimators.md", "exec"), names)
    assert "'sex = male'" in capsys.readouterr().out
    assert names["model"].epsilon_ <= 0.5
    assert names["budget"].fits == 2
    assert 0 < names["budget"].remaining < 0.8
    exec(compile(curved, "estimators.md", "exec"), names)
    fitted = names["curved"].set_params(accountant=None, epsilon=2.0).fit(names["people"], names["income"])
    assert "((age - 50) / 10)" in fitted.regression_.params
    exec(compile(columns, "estimators.md", "exec"), names)
    rows = [[3, 40], [600, 30]]
    assert names["model"].unread(names["pd"].DataFrame(rows, columns=["visits", "age"]), ["no", "yes"])["visits"] == 0.5


def test_the_example_of_counts_runs(capsys: pytest.CaptureFixture[str]) -> None:
    for library in ("sklearn", "pandas"):
        pytest.importorskip(library, reason=f"{library} is not installed: the example of counts is not run")
    (code,) = re.findall(r"```python\n(.+?)```", (DOCS / "how-to/regression.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "regression.md", "exec"), names)
    assert "rate ratio" in capsys.readouterr().out
    table = names["model"].regression_
    for term, true in {"age": 0.01, "sex = male": 0.3, "intercept": -0.54}.items():
        assert abs(table.params[term] - true) < 8 * table.bse[term]  # the noise of an example is not seeded
