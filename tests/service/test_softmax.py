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
    response = shared.upload(spec, file)
    assert response.status_code == 201, response.text
    return str(response.json()["id"])


def _body(dataset: str, **changes: Any) -> dict[str, Any]:
    return {"dataset": dataset, "target": "fruit", "privacy": {"epsilon": 4.0}} | changes


@pytest.mark.slow
@pytest.mark.parametrize("method", ["auto", "dp_acc_md", "dp_svrg", "dp_svrg_pp"])
def test_from_quote_to_prediction(shared: Service, market: str, method: str) -> None:
    body = _body(market, method={"name": method}, privacy={"epsilon": 6.0})  # noise makes no wrong class likeliest
    quote = shared.call("analyst", "POST", "/v1/quotes", json=body).json()
    assert quote["dimension"] == 3 * (1 + 4 + 1)
    assert quote["gradient_bound"] == pytest.approx(np.sqrt(2) * quote["row_norm"])
    answer = shared.call("analyst", "POST", "/v1/jobs", json=body)
    assert answer.status_code == 202, answer.text
    assert answer.json()["quote"] == quote
    job = shared.finished(answer.json()["id"])
    assert (job["state"], job["error"]) == ("done", None)

    document = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").json()
    assert (document["kind"], document["loss"], document["link"]) == ("linear", "softmax", "softmax")
    assert document["classes"] == ["plum", "fig", "lime"], "as declared"
    assert np.shape(document["coefficients"]) == (3, 1 + 4)
    assert np.shape(document["intercept"]) == (3,)
    model = Model.model_validate(document)
    chances = predict(model, [{"size": 5, "color": color} for color in FRUITS])
    assert chances.shape == (3, 3)
    assert chances.sum(axis=1) == pytest.approx(1)
    assert [document["classes"][k] for k in chances.argmax(axis=1)] == list(FRUITS.values())
    receipt = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/receipt").json()
    assert shared.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        {"name": "dp_svrg", "form": "printed", "batch": 40, "epochs": 2, "inner_steps": 10},
        {"name": "dp_svrg_pp", "form": "printed", "batch": 1, "epochs": 2, "inner_steps": 5},
        {"name": "dp_svrg", "step_rule": "barzilai_borwein", "epochs": 3, "inner_steps": 10},
    ],
    ids=["printed", "printed pp, single rows", "barzilai-borwein"],
)
def test_other_forms_of_svrg_from_quote_to_receipt(shared: Service, market: str, method: dict[str, Any]) -> None:
    answer = shared.call("analyst", "POST", "/v1/jobs", json=_body(market, method=method, privacy={"epsilon": 1.0}))
    assert answer.status_code == 202, answer.text
    job = shared.finished(answer.json()["id"])
    assert (job["state"], job["error"]) == ("done", None)
    receipt = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/receipt").json()
    assert shared.call(None, "POST", "/v1/receipts/verify", json=receipt).json()["valid"]


@pytest.mark.slow
def test_a_positive_category_still_gives_two_classes(shared: Service, market: str) -> None:
    answer = shared.call("analyst", "POST", "/v1/jobs", json=_body(market, positive="lime"))
    job = shared.finished(answer.json()["id"])
    model = shared.call("analyst", "GET", f"/v1/jobs/{job['id']}/model").json()
    assert (model["loss"], model["link"], model["classes"]) == ("logistic", "logistic", ["not lime", "lime"])
    assert "two categories" in answer.json()["quote"]["warnings"][0]
