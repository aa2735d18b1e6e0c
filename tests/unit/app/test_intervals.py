"""A model's intervals, as they are published and told to people."""

import json
from unittest.mock import Mock

import pytest

from app.jobs import release
from app.jobs.store import JobRow
from purse import Model
from tests.support.quotes import priced


@pytest.mark.parametrize("method", ["output_perturbation", "dp_gd"])
def test_a_model_states_intervals_only_if_the_method_supports_them(method: str) -> None:
    quote = priced(method={"name": method}, preparation={"name": "declared"})
    plan, size = quote.spec.release_plan.plan, quote.spec.problem.size
    job = Mock(spec=JobRow, id="job_1", dataset_id="ds_1")
    text = release.document(job, release.Result(quote.spec, (0.25,) * size, plan))
    model = Model.model_validate_json(text)
    assert (model.intervals is not None) == ("intervals" in json.loads(text)) == (method == "output_perturbation")
    if model.intervals is not None:
        assert len(model.intervals.half_widths) == size - 1
        assert model.intervals.intercept == pytest.approx(1.96 * quote.planned.noise_stds[0], rel=0.1)
        assert isinstance(model.intervals.intercept, float)
        low, high = 0.25 - model.intervals.intercept, 0.25 + model.intervals.intercept
        (intercept,) = [line for line in model.summary().splitlines() if line.startswith("intercept")]
        assert f"0.25 [{low:.4g}, {high:.4g}]" in intercept
        assert "no sampling error" in " ".join(model.summary().split())
