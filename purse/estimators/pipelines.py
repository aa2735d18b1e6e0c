"""Steps of a pipeline that learn from rows without privacy before a private estimator sees them."""

import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.utils import get_tags

_PUBLIC = {"n_features_in_", "feature_names_in_"}


class LearnedFromData(UserWarning):
    """A step before a private estimator may have learned from rows; the guarantee does not cover that."""


def check_pipeline(pipeline: Any) -> dict[str, tuple[str, ...]]:
    """Return the steps before the last that may learn from data, with the attributes they learned; warn of each.

    A step is returned if scikit-learn's tag `requires_fit` says that it must be fitted, or if it has fitted attributes
    other than the names and number of its columns. Pipelines, ColumnTransformers and FeatureUnions are searched too.
    Call this before the fit.

    The check relies on the tags of steps, and does not see work done before the pipeline. It cannot know whether what a
    step learns is public, such as the categories passed to OneHotEncoder: judge that yourself.

    Parameters
    ----------
    pipeline : sklearn.pipeline.Pipeline, fitted or not, whose last step is the private estimator

    Returns
    -------
    A mapping from a step's name to its learned attributes, such as {"scale": ("mean_", "scale_", ...)}. Names of nested
    steps are joined by dots; an unfitted step has ().
    """
    learning = {}
    for path, step in _steps(pipeline, is_last=True):
        names = (name for name in vars(step) if name.endswith("_") and not name.startswith("_"))
        learned = tuple(sorted(name for name in names if name not in _PUBLIC))
        if learned or get_tags(step).requires_fit:
            learning[path] = learned
            action = f"has learned {', '.join(learned)}" if learned else "will learn"
            warnings.warn(
                f"step {path} ({type(step).__name__}) {action} from the rows without privacy, unless its settings are "
                "all public. The guarantee of the private estimator does not cover that: give the step public settings",
                LearnedFromData,
                stacklevel=2,
            )
    return learning


def _steps(container: Any, is_last: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield the path and the object of each step that is not a container, in order."""
    named = [(name, step) for name, step, *_ in _children(container)]
    for name, step in named[:-1] if is_last else named:
        if step is None or isinstance(step, str):  # "passthrough", "drop"
            continue
        if _children(step):
            yield from ((f"{name}.{path}", inner) for path, inner in _steps(step))
        else:
            yield name, step


def _children(container: Any) -> list[Any]:
    """Return the steps of a Pipeline, a ColumnTransformer (fitted if possible) or a FeatureUnion; otherwise []."""
    for name in ("steps", "transformers_", "transformers", "transformer_list"):
        children = getattr(container, name, None)
        if isinstance(children, list):
            return children
    return []
