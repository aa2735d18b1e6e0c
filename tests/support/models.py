"""Released documents for tests of what reads them: no data and no solver is behind them."""

from typing import Any

PRIVACY: dict[str, Any] = {
    "epsilon": 0.5,
    "delta": 1e-7,
    "neighbors": "replace_one",
    "rows": 100,
    "event": {},
    "accountant": "exact_gaussian",
    "accountant_version": "1",
}
AGE: dict[str, Any] = {"name": "age", "type": "number", "lower": 0.0, "upper": 50.0}


def model_document(**changes: Any) -> dict[str, Any]:
    """Return the JSON of a logistic model of one number; `changes` replace whole fields."""
    document: dict[str, Any] = {
        "kind": "linear",
        "loss": "logistic",
        "coefficients": [2.0],
        "intercept": 0.0,
        "features": [AGE],
        "link": "logistic",
        "classes": ["no", "yes"],
        "target": {"name": "y", "type": "category", "categories": ["no", "yes"]},
        "row_norm": 2.0,
        "job": "job_a",
        "privacy": PRIVACY,
    }
    return document | changes
