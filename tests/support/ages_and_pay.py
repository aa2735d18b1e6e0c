"""Ages and payments of 20,000 invented people, and the declaration of their columns."""

from typing import Any

import numpy as np

N = 20_000
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "type": "number", "lower": 20, "upper": 60},
    {"name": "paid", "type": "number", "lower": 0, "upper": 1000, "origin": 0, "scale": 500},
    {"name": "sex", "type": "category", "categories": ["f", "m"]},
]
_GENERATOR = np.random.default_rng(11)
AGE = np.clip(_GENERATOR.normal(35, 6, N), 20, 60)
PAID = np.minimum(_GENERATOR.exponential(60, N), 500)
