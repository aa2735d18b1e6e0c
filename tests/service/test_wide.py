"""A column of a hundred thousand categories: declared, stored, priced, trained and released like any other."""

import numpy as np
import pytest

from app.datasets import folders
from purse.prediction import predict
from purse.wire.models import Model
from tests.support.service import JOB, SPEC, Service

CITIES = [f"city number {k}" for k in range(100_000)]


@pytest.mark.slow
def test_a_hundred_thousand_categories_take_three_bytes_a_record(service: Service) -> None:
    n = 3000
    lines = [f"{20 + i % 60},{CITIES[i * 7919 % 100_000]},{'high' if i % 60 > 30 else 'low'}" for i in range(n)]
    city = {"name": "city", "type": "category", "categories": CITIES}
    spec = SPEC | {"columns": [SPEC["columns"][0], city, SPEC["columns"][2]]}
    dataset = service.registered(spec, ("age,city,income\n" + "\n".join(lines) + "\n").encode())["id"]
    folder = folders.path(service.home, dataset)
    assert (folder / "codes.npy").stat().st_size == 128 + n * (3 + 1)
    job = JOB | {"dataset": dataset, "method": {"name": "dp_gd", "steps": 3}, "privacy": {"epsilon": 0.5}}
    model = Model.model_validate(service.read(f"jobs/{service.done(job)['id']}/model"))
    coefficients = np.array(model.coefficients)
    assert coefficients.shape == (1 + 100_001,)
    assert np.isfinite(coefficients).all()
    chances = predict(model, [{"age": 30, "city": CITIES[k % 5 + 99_990]} for k in range(20_000)])  # dense: 16 GB
    own = model.intercept + coefficients[0] * ((30 - 50) / 50) + coefficients[1 + 99_990]
    assert chances[0] == 1 / (1 + np.exp(-own)) or abs(chances[0] - 1 / (1 + np.exp(-own))) < 1e-12
