"""More two-class problems from the package pydataset, and a synthetic one whose classes are almost separable."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from benchmarks.datasets import Bounds, Split, listed, mixed
from solvers.columns import Columns


@dataclass(frozen=True, slots=True)
class Source:
    """A two-class problem: whether a number column exceeds a threshold, given other columns.

    Parameters
    ----------
    table : name of the table in pydataset
    target, threshold : the column that is predicted, and the number that it exceeds in the positive class
    numbers : bounds of the number columns, which are public knowledge or round numbers
    categories : names of the other columns
    """

    table: str
    target: str
    threshold: float
    numbers: Bounds
    categories: tuple[str, ...] = ()

    def split(self, name: str) -> Split:
        """Return the encoded problem.

        Raises
        ------
        MissingDataset
            if pydataset is not installed.
        """
        table = listed(self.table)
        columns = {column: pa.array(_numbers(table, column)) for column in self.numbers}
        columns |= {column: table[column].cast(pa.string()) for column in self.categories}
        is_positive = _numbers(table, self.target) > self.threshold
        columns["target"] = pa.array(np.where(is_positive, "yes", "no"))
        return mixed(name, pa.table(columns), self.numbers, "target", "yes")


_GENRES = ("Action", "Animation", "Comedy", "Drama", "Documentary", "Romance")
SOURCES = {
    "Medicine": Source(  # people in Vietnam who bought medicine
        "Ecdat/VietNamI",
        "pharvis",
        0,
        {
            "lnhhexp": (0, 6),
            "age": (0, 5),
            "educ": (0, 12),
            "illness": (0, 10),
            "injury": (0, 1),
            "illdays": (0, 31),
            "actdays": (0, 31),
            "married": (0, 1),
            "insurance": (0, 1),
        },
        ("sex",),
    ),
    "Light chains": Source(  # deaths, by free light chains in the blood
        "survival/flchain",
        "death",
        0,
        {
            "age": (50, 100),
            "sample.yr": (1995, 2003),
            "kappa": (0, 20),
            "lambda": (0, 20),
            "flc.grp": (1, 10),
            "mgus": (0, 1),
        },
        ("sex",),
    ),
    "Elderly": Source(  # patients of 66 and older who stayed in a hospital
        "Ecdat/OFP",
        "hosp",
        0,
        {
            "ofp": (0, 100),
            "ofnp": (0, 100),
            "numchron": (0, 10),
            "adldiff": (0, 1),
            "age": (6.5, 10),
            "school": (0, 20),
            "faminc": (0, 20),
        },
        ("black", "sex", "maried", "employed", "privins", "medicaid", "region", "hlth"),
    ),
    "Food": Source(  # households in Spain that spend more than two fifths on food
        "Ecdat/BudgetFood",
        "wfood",
        0.4,
        {"totexp": (0, 5e6), "age": (16, 100), "size": (1, 20), "town": (1, 5)},
        ("sex",),
    ),
    "Vocabulary": Source(  # people who know more than six of ten words
        "car/Vocab", "vocabulary", 6, {"year": (1974, 2004), "education": (0, 20)}, ("sex",)
    ),
    "Computers": Source(  # computers for more than 2,000 dollars
        "Ecdat/Computers",
        "price",
        2000,
        {"speed": (0, 100), "hd": (0, 2000), "ram": (0, 32), "screen": (14, 17), "ads": (0, 400), "trend": (1, 36)},
        ("cd", "multi", "premium"),
    ),
    "Instructors": Source(  # lecturers with a grade above 3 of 5
        "lme4/InstEval", "y", 3, {"studage": (2, 8), "lectage": (1, 6), "service": (0, 1)}, ("dept",)
    ),
    "Short films": Source(  # almost separable by length
        "ggplot2/movies",
        "Short",
        0,
        {"year": (1893, 2005), "length": (0, 300), "votes": (0, 200_000), "rating": (1, 10)}
        | dict.fromkeys(_GENRES, (0, 1)),
    ),
    "Large diamonds": Source(  # more than .9 carat, almost separable by length, width and depth
        "ggplot2/diamonds",
        "carat",
        0.9,
        {"depth": (40, 80), "table": (40, 100), "x": (0, 12), "y": (0, 60), "z": (0, 40)},
        ("cut", "color", "clarity"),
    ),
}


def near_separable() -> Split:
    """Return 20,000 synthetic rows of 20 numbers whose classes one direction almost separates.

    Numbers are uniform in [-1, 1]. The score is a Gaussian combination of the first 8, of std 1. Its label is whether
    the score plus Gaussian noise of std 0.05 exceeds 0.3.
    """
    generator, n, d = np.random.default_rng(7), 20_000, 20
    numbers = generator.uniform(-1, 1, (n, d))
    scores = numbers[:, :8] @ generator.normal(size=8)
    y = np.where(scores / scores.std() + 0.05 * generator.normal(size=n) > 0.3, 1.0, -1.0)
    columns = Columns((1,) * d, ((-1.0, 1.0),) * d)
    X = np.c_[numbers, np.ones(n)]
    return Split("Near-separable", X, y, X, y, columns.row_norm, columns)


def _numbers(table: pa.Table, column: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(table[column].cast(pa.float64()))
