"""Hypothesis strategies of JSON documents."""

from typing import Any

from hypothesis import strategies as st


def json_values(integers: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Any]:
    """Return documents of any value that JSON or Python's `json` can read, with these integers or with all."""
    return st.recursive(
        st.none() | st.booleans() | (integers or st.integers()) | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
