"""A target of three categories over HTTP: quote, job, model, prediction, receipt."""

from typing import Any

import numpy as np
import pytest

from purse.prediction import predict
from purse.wire.models import Model
from tests.support.service import SPEC, Service

FRUITS = {"red": "fig", "green": "lime", "blue": "plum"}
COLUMNS = [
    {"name": "size", "type": "number", "lower": 0, "upper": 10},
    {"name": "color", "type": "category", "categories": list(FRUITS)},
    {"name": "fruit", "type": "category", "categories": ["plum", "fig", "lime"]},
]


@pytest.fixture(scope="module")
def market(shared: Service) -> str:
    """A dataset whose fruit follows from its color; every tenth is missing, which makes it a plum."""
    colors = list(FRUITS)
    rows = (f"{i % 11},{colors[i % 3]},{'' if i % 10 == 9 else FRUITS[colors[i % 3]]}" for i in range(1500))
    file = ("size,color,fruit\n" + "\n".join(rows) + "\n").encode()
    spec = SPEC | {"name": "market", "columns": COLUMNS, "budget": {"epsilon": 40.0, "delta": 1e-6}}
    return str(shared.registered(spec, file)["id"])


def _body(dataset: str, **changes: Any) -> dict[str, Any]:
    return {"dataset": dataset, "target": "fruit", "privacy": {"epsilon": 4.0}} | changes


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "dp_acc_md", "dp_svrg", "dp_svrg_pp"])
def test_from_quote_to_prediction(shared: Service, market: str, method: str) -> None:
    body = _body(market, method={"name": method}, privacy={"epsilon": 6.0})  # noise makes no wrong class likeliest
    quote = shared.call("analyst", "POST", "/v1/quotes", json=body).json()
    assert quote["dimension"] == 3 * (1 + 4 + 1)
    assert quote["gradient_bound"] == pytest.approx(np.sqrt(2) * quote["row_norm"])
    job = shared.done(body)
    assert job["quote"] == quote

    document = shared.read(f"jobs/{job['id']}/model")
    assert (document["kind"], document["loss"], document["link"]) == ("linear", "softmax", "softmax")
    assert document["classes"] == ["plum", "fig", "lime"], "as declared"
    assert np.shape(document["coefficients"]) == (3, 1 + 4)
    assert np.shape(document["intercept"]) == (3,)
    model = Model.model_validate(document)
    chances = predict(model, [{"size": 5, "color": color} for color in FRUITS])
    assert chances.shape == (3, 3)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert [document["classes"][k] for k in chances.argmax(axis=1)] == list(FRUITS.values())
    shared.receipt(job["id"])


@pytest.mark.slow
def test_a_positive_category_still_gives_two_classes(shared: Service, market: str) -> None:
    job = shared.done(_body(market, positive="lime"))
    model = shared.read(f"jobs/{job['id']}/model")
    assert (model["loss"], model["link"], model["classes"]) == ("logistic", "logistic", ["not lime", "lime"])
    assert "two categories" in job["quote"]["warnings"][0]
