"""More two-class problems from the package pydataset, and synthetic ones."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from scipy.special import expit, ndtr

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
    "Doctor contacts": Source(  # people in the RAND experiment who saw a doctor in a year
        "Ecdat/DoctorContacts",
        "mdu",
        0,
        {
            "lc": (0, 5),
            "lpi": (0, 10),
            "fmde": (0, 10),
            "ndisease": (0, 60),
            "linc": (0, 12),
            "lfam": (0, 3),
            "educdec": (0, 25),
            "age": (0, 70),
        },
        ("idp", "physlim", "health", "sex", "child", "black"),
    ),
    "Home runs": Source(  # seasons of baseball players with a home run
        "plyr/baseball",
        "hr",
        0,
        {
            "year": (1870, 2010),
            "stint": (1, 4),
            "g": (0, 165),
            "ab": (0, 720),
            "r": (0, 200),
            "h": (0, 270),
            "X2b": (0, 70),
            "X3b": (0, 40),
            "bb": (0, 240),
        },
    ),
    "Young men": Source(  # men whose hourly wage has a logarithm above 1.7
        "plm/Males",
        "wage",
        1.7,
        {"school": (0, 20), "exper": (0, 20), "year": (1980, 1987)},
        ("union", "ethn", "married", "health", "industry", "occupation", "residence"),
    ),
    "Computers": Source(  # computers for more than 2,000 dollars
        "Ecdat/Computers",
        "price",
        2000,
        {"speed": (0, 100), "hd": (0, 2000), "ram": (0, 32), "screen": (14, 17), "ads": (0, 400), "trend": (1, 36)},
        ("cd", "multi", "premium"),
    ),
    "Spanish firms": Source(  # with a logarithm of output above 7
        "plm/Snmesp", "y", 7, {"n": (0, 10), "w": (-2, 3), "i": (0, 15), "k": (0, 15), "year": (1983, 1990)}
    ),
    "Long stays": Source(  # of heart patients in a hospital, above 7 days
        "COUNT/azpro",
        "los",
        7,
        {"procedure": (0, 1), "sex": (0, 1), "age75": (0, 1), "admit": (0, 1), "hospital": (0, 10)},
    ),
    "Nitrogen": Source(  # hours at a motorway with a logarithm of nitrogen oxides above 4.5
        "robustbase/NOxEmissions", "LNOx", 4.5, {"LNOxEm": (4, 9), "sqrtWS": (0, 4), "julday": (373, 730)}
    ),
    "Relapses": Source(  # of a tumor of the kidney
        "survival/nwtco",
        "rel",
        0,
        {"stage": (1, 4), "edrel": (0, 7000), "age": (0, 200)},
        ("instit", "histol", "study"),
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


@dataclass(frozen=True, slots=True)
class Planted:
    """A synthetic problem: numbers that are uniform in [-1, 1], and log-odds that a few of them determine.

    Parameters
    ----------
    n, numbers : rows and numbers of a row
    correlation : of each number with the next one, or of each pair of numbers, as normal scores
    std, mean : of the log-odds, a combination of the first 8 numbers. Its coefficients are Gaussian; if numbers are
        correlated, their signs alternate instead, so that the effect lies where rows hardly vary
    is_shared : whether each pair of numbers has the correlation
    flipped : share of the labels that are replaced by their opposite
    """

    n: int
    numbers: int
    correlation: float
    std: float
    mean: float
    is_shared: bool = False
    flipped: float = 0.0

    def split(self, name: str) -> Split:
        """Return the encoded problem."""
        generator = np.random.default_rng(11)
        normal = generator.normal(size=(self.n, self.numbers))
        if self.is_shared:
            shared = generator.normal(size=(self.n, 1))
            normal = np.sqrt(self.correlation) * shared + np.sqrt(1 - self.correlation) * normal
        for j in range(1, 0 if self.is_shared else self.numbers):
            own = np.sqrt(1 - self.correlation**2) * normal[:, j]
            normal[:, j] = self.correlation * normal[:, j - 1] + own
        numbers = 2 * ndtr(normal) - 1
        coefficients = (-1.0) ** np.arange(8) if self.correlation else generator.normal(size=8)
        scores = numbers[:, :8] @ coefficients
        margins = self.std * scores / scores.std() + self.mean
        y = np.where(generator.uniform(size=self.n) < expit(margins), 1.0, -1.0)
        y[generator.uniform(size=self.n) < self.flipped] *= -1
        columns = Columns((1,) * self.numbers, ((-1.0, 1.0),) * self.numbers)
        X = np.c_[numbers, np.ones(self.n)]
        return Split(name, X, y, X, y, columns.row_norm, columns)


PLANTED = {
    "Rare class": Planted(50_000, 20, 0.0, 1.5, -5.5),
    "Collinear": Planted(20_000, 20, 0.95, 0.5, 0.3),
    "Collinear, strong": Planted(20_000, 20, 0.95, 3.0, 0.3),
    "Shared, weak": Planted(20_000, 20, 0.95, 1.0, 0.3, is_shared=True),
    "Shared, strong": Planted(50_000, 20, 0.95, 10.0, 0.3, is_shared=True),
    "Shared, closely": Planted(100_000, 20, 0.99, 3.0, 0.3, is_shared=True),
    "Shared, few": Planted(50_000, 8, 0.9, 6.0, 0.3, is_shared=True),
    "Flipped labels": Planted(300_000, 20, 0.0, 25.0, 0.0, flipped=0.02),
    "No signal": Planted(20_000, 100, 0.0, 0.0, 0.0),
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
