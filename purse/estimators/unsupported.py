"""Errors for parameters of scikit-learn that a private fit cannot have, with what to use instead."""

from collections.abc import Mapping
from typing import Any, Final

_NOISE: Final = "the noise of a private fit must be unpredictable, so it has no seed and two fits differ; leave it out"
_WEIGHTS: Final = (
    "weights would multiply the influence of single rows, which the noise must hide, so they are not supported; leave "
    "them out, or protect persons with max_rows and persons"
)
_STEPS: Final = "use method, such as method=solvers.methods.DpGd(steps=50)"

INSTEAD: Final[Mapping[str, str]] = {
    "C": "use alpha: the penalty (alpha / 2) ||w||^2 is added to the mean loss, so alpha = 1 / (C n) for n rows",
    "class_weight": f"{_WEIGHTS}; or move the threshold of predict_proba",
    "fit_intercept": "an intercept is always fitted, because it costs next to nothing; leave it out",
    "max_iter": _STEPS,
    "n_jobs": "a fit uses one core; leave it out",
    "penalty": "use alpha for an l2 penalty",
    "random_state": _NOISE,
    "sample_weight": _WEIGHTS,
    "solver": "use method, such as method='dp_gd'",
    "tol": _STEPS,
}


def refuse(name: str, keywords: Mapping[str, Any]) -> None:
    """Raise a TypeError that says what to use instead of a parameter of scikit-learn."""
    for keyword in keywords:
        if keyword in INSTEAD:
            raise TypeError(f"{name} does not have {keyword}: {INSTEAD[keyword]}.")


def refuse_fit_parameters(estimator: Any, keywords: Mapping[str, Any]) -> None:
    """Raise a TypeError for any further parameter of `fit`."""
    name = f"{type(estimator).__name__}.fit"
    refuse(name, keywords)
    if keywords:
        raise TypeError(f"{name} has the parameters X, y and persons, and no {', '.join(keywords)}.")
