"""What of a pipeline is fitted without privacy before a private estimator sees its rows, as far as it can be seen."""

import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.utils import get_tags

_SHAPE = {"n_features_in_", "feature_names_in_"}  # are public


class LearnedFromData(UserWarning):
    """A step before a private estimator may have learned from the rows: the promise does not cover what it learned."""


def check_pipeline(pipeline: Any) -> dict[str, tuple[str, ...]]:
    """The steps before the last that may learn from data, and the attributes that they have learned; warns of each.

    A step is one if scikit-learn's tag `requires_fit` says that it is to be fitted, or if it holds fitted attributes
    beside the names and number of its columns. Pipelines, ColumnTransformers and FeatureUnions are looked into. Call it
    before the fit. It cannot see everything: an estimator knows nothing of the steps before it, a step of which the tag
    says otherwise is believed until it is fitted, and what was done before the pipeline leaves no trace. Nor can it
    know that what a step would learn is public, as of OneHotEncoder with its categories given: that is yours to judge.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline, fitted or not, its last step the private estimator

    Returns
    -------
    {"scale": ("mean_", "scale_", ...)}, by the steps' names, of nested ones with dots; () before they are fitted
    """
    found = {}
    for path, step in _steps(pipeline, is_last=True):
        learned = tuple(sorted(a for a in vars(step) if a.endswith("_") and not a.startswith("_") and a not in _SHAPE))
        if learned or get_tags(step).requires_fit:
            found[path] = learned
            what = f"has learned {', '.join(learned)}" if learned else "will learn"
            warnings.warn(
                f"step {path} ({type(step).__name__}) {what} from the rows without privacy, unless its settings "
                "are all public: the promise of the private estimator after it does not cover that",
                LearnedFromData,
                stacklevel=2,
            )
    return found


def _steps(container: Any, is_last: bool = False) -> Iterator[tuple[str, Any]]:
    """(path, step) of each that is no container, in order."""
    named = [(name, step) for name, step, *_ in _children(container)]
    for name, step in named[:-1] if is_last else named:
        if step is None or isinstance(step, str):  # "passthrough", "drop"
            continue
        if _children(step):
            yield from ((f"{name}.{path}", inner) for path, inner in _steps(step))
        else:
            yield name, step


def _children(container: Any) -> list[Any]:
    """Of a Pipeline, a ColumnTransformer (its fitted ones, if it is) or a FeatureUnion; [] of anything else."""
    for name in ("steps", "transformers_", "transformers", "transformer_list"):
        found = getattr(container, name, None)
        if isinstance(found, list):
            return found
    return []
