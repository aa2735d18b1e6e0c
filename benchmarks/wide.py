"""dp_acc_md with the potential of each domain against dp_gd on the same budget, for many coordinates.

Rows are scaled to norm at most 1 and no regularizer is added. The radii are set by the features' scale alone: an l2
ball of margins up to 10; an l1 ball and a simplex of margins up to 6 for w8a's rows of a dozen words, and of about 1
where all features are equal in size.

A second table compares "auto" on declared words with a constant, and with the row norm that an analyst may set. Its
last block has dense columns of the same declaration that say nothing about the class.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from accounting import Privacy
from accounting.divergences.gaussian import gauss_mu
from benchmarks.datasets import Split, adult, available, w8a_words
from benchmarks.references import DELTA, Reference, Vector, majority, spread
from solvers import Problem, solve
from solvers.columns import Columns
from solvers.domains import Domain, Free, L1Ball, L2Ball, Simplex
from solvers.losses import Logistic
from solvers.methods import DpAccMd, DpGd
from solvers.regularizers import L2
from solvers.selection import Auto

EPSILONS = (0.5, 1.0, 4.0)
_ROWS = 4000
_EXACT_STEPS = 300
_ROW_NORM = 4.0
_TEST_ROWS = 4000


@dataclass(frozen=True, eq=False)
class Words:
    """Columns declared in [0, 1], such as indicators of words, with the constant as the last one, and two classes."""

    name: str
    X: sp.csr_matrix
    y: NDArray[np.float64]
    X_test: sp.csr_matrix
    y_test: NDArray[np.float64]


def report(seeds: int) -> None:
    """Print a table for each dataset, with the ratio of the two methods' risks, and the table of words."""
    _report_domains(seeds)
    report_words(seeds)


def report_words(seeds: int) -> None:
    """Print accuracy and log loss on test rows, of "auto" and of a row norm in the request."""
    for words in available(*WORDS):
        n, d = words.X.shape
        share = float(np.mean(words.y > 0))
        constant = _scores(words, np.append(np.zeros(d - 1), np.log(share / (1 - share))))
        entries = words.X.nnz / n - 1
        print(f"\n{words.name}: n = {n}, d = {d}, {entries:.0f} entries a row, delta = {DELTA:g}, {seeds} runs")
        print(f"{'':<44}{'accuracy':>22}{'log loss':>22}")
        print(f"{'constant without noise':<44}{constant[0]:>22.4f}{constant[1]:>22.4f}")
        for epsilon in EPSILONS:
            ratio = n * gauss_mu(epsilon, DELTA) / d
            for label, row_norm in (("auto", None), (f"auto, row_norm {_ROW_NORM:g}", _ROW_NORM)):
                scores = np.array([_scores(words, _fit_words(words, epsilon, row_norm)) for _ in range(seeds)])
                label = f"epsilon {epsilon:g}, r {ratio:.2f}: {label}"
                print(f"{label:<44}{spread(scores[:, 0], 4):>22}{spread(scores[:, 1], 4):>22}", flush=True)


def _fit_words(words: Words, epsilon: float, row_norm: float | None) -> Vector:
    n, d = words.X.shape
    columns = Columns((1,) * (d - 1), ((0.0, 1.0),) * (d - 1))
    problem = Problem(Logistic(), L2(1e-4), n=n, d=d, row_norm=row_norm or columns.row_norm, columns=columns)
    return solve(Auto(), problem, words.X, words.y, Privacy(epsilon, DELTA)).coefficients


def _scores(words: Words, w: Vector) -> tuple[float, float]:
    """Return the accuracy and the log loss on test rows."""
    margins = words.y_test * (words.X_test @ w)
    return float(np.mean(margins > 0)), float(np.mean(np.logaddexp(0, -margins)))


def _report_domains(seeds: int) -> None:
    for load, domains in CASES:
        started = time.perf_counter()
        for split in available(load):
            n, d = split.X.shape
            print(f"\n{split.name}: n = {n}, d = {d}, rows of norm 1, logistic, delta = {DELTA:g}, {seeds} runs a cell")
            print(f"majority class of the rows kept out {majority(split):.4f}")
            print(
                f"{'domain':<22}{'epsilon':>8} {'dp_gd: excess risk':>24} {'accuracy':>9}"
                f" {'dp_acc_md: excess risk':>24} {'accuracy':>9}  {'potential':<18}{'ratio of risks':>14}"
            )
            for domain in domains:
                _compare(split, domain, seeds)
            print(f"{time.perf_counter() - started:.0f} s")


def _compare(split: Split, domain: Domain, seeds: int) -> None:
    n, d = split.X.shape
    problem = Problem(Logistic(), domain=domain, n=n, d=d, row_norm=1.0)
    reference = Reference(split, problem, _optimum(problem, split))
    label = domain.name + (f" {domain.radius:.4g}" if not isinstance(domain, Free) else "")
    print(
        f"{label:<22}{'-':>8} {'untrained ' + format(reference.excess(problem.start), '.4f'):>24} {'':>9} "
        f"{'optimum':>24} {reference.score(reference.optimum):>9.4f}"
    )
    for epsilon in EPSILONS:
        models = [[reference.fit(method, epsilon) for _ in range(seeds)] for method in (DpGd(), DpAccMd())]
        risks = [[reference.excess(w) for w in cell] for cell in models]
        gd_score, acc_score = (np.mean([reference.score(w) for w in cell]) for cell in models)
        potential = DpAccMd().resolve(problem, Privacy(epsilon, DELTA)).potential
        name, ratio = potential.name if potential else "", np.mean(risks[1]) / np.mean(risks[0])
        print(
            f"{label:<22}{epsilon:>8g} {spread(risks[0], 4):>24} {gd_score:>9.4f} {spread(risks[1], 4):>24} "
            f"{acc_score:>9.4f}  {name:<18}{ratio:>14.2f}",
            flush=True,
        )


def _optimum(problem: Problem, split: Split) -> Vector:
    """Return the point after 300 accelerated steps without noise; it is near the least risk, without a certificate."""
    w = before = problem.start
    for t in range(_EXACT_STEPS):
        v = w + t / (t + 3) * (w - before)
        slopes = problem.loss.slope(split.X @ v, split.y)
        before, w = w, problem.prox(v - (slopes @ split.X / problem.n) / problem.L, 1 / problem.L)
    return w


def w8a() -> Split:
    """Return web pages, a constant and 300 binary words: 20,000 training rows by a fixed permutation."""
    words, is_topic = w8a_words()
    X = np.column_stack((np.ones(len(words)), words))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = np.where(is_topic, 1.0, -1.0)
    train, test = np.split(np.random.default_rng(0).permutation(len(y)), [20_000])
    return Split("w8a", X[train], y[train], X[test], y[test], 1.0)


def fourier(d: int) -> Split:
    """Return Adult in d random Fourier features, cos(<a, x> + b) / sqrt(d)."""
    split = adult()
    random = np.random.default_rng(1)
    a = random.standard_normal((split.X.shape[1], d)) / split.row_norm
    b = random.uniform(0, 2 * np.pi, d)
    return _mapped(split, f"Adult, {d} Fourier features", lambda X: np.cos(X @ a + b) / np.sqrt(d))


def relu(d: int) -> Split:
    """Return Adult in d random features max(0, <a, x>), each row scaled to norm 1."""
    split = adult()
    a = np.random.default_rng(2).standard_normal((split.X.shape[1], d))

    def features(X: Vector) -> Vector:
        mapped = np.maximum(X @ a, 0.0)
        mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
        return mapped

    return _mapped(split, f"Adult, {d} ReLU features", features)


def _mapped(split: Split, name: str, features: Callable[[Vector], Vector]) -> Split:
    """Return 4,000 training rows and 2,000 test rows, mapped."""
    X, X_test = features(split.X[:_ROWS]), features(split.X_test[: _ROWS // 2])
    return Split(name, X, split.y[:_ROWS], X_test, split.y_test[: _ROWS // 2], 1.0)


CASES: tuple[tuple[Callable[[], Split], tuple[Domain, ...]], ...] = (
    (w8a, (Free(), L2Ball(10.0), L1Ball(20.0), Simplex(20.0))),
    (partial(fourier, 2000), (Free(), L2Ball(10.0), L1Ball(2000**0.5), Simplex(2000**0.5))),
    (partial(relu, 20_000), (Free(), L1Ball(20_000**0.5 / 2))),
)


def texts(n: int, words: int, length: int) -> Words:
    """Return synthetic texts of two equally frequent classes, whose words have Zipf frequencies."""
    random = np.random.default_rng(1)
    y = np.where(random.random(n + _TEST_ROWS) < 0.5, 1.0, -1.0)
    frequencies, effects = 1 / (np.arange(words) + 3.0), random.normal(0, 0.25, words)
    lengths = random.poisson(length * np.exp(random.normal(0, 0.4, len(y)) - 0.08))
    text, word = np.repeat(np.arange(len(y)), lengths), np.empty(lengths.sum(), dtype=np.int64)
    for sign in (-1.0, 1.0):
        cumulated, own = np.cumsum(frequencies * np.exp(sign * effects)), y[text] == sign
        word[own] = np.searchsorted(cumulated / cumulated[-1], random.random(int(own.sum())))
    X = sp.csr_matrix((np.ones(len(text)), (text, np.minimum(word, words - 1))), shape=(len(y), words))
    return _words(f"synthetic texts, {words:,} words", X.minimum(1.0), y, n)


def few_pages() -> Words:
    """Return 1,000 web pages of w8a, of which 3 % are on the topic."""
    words, is_topic = w8a_words()
    order = np.random.default_rng(0).permutation(len(words))[: 1000 + _TEST_ROWS]
    return _words("w8a", sp.csr_matrix(words[order]), np.where(is_topic[order], 1.0, -1.0), 1000)


def dense(n: int, columns: int) -> Words:
    """Return uniform columns that are independent of two equally frequent classes."""
    random = np.random.default_rng(1)
    y = np.where(random.random(n + _TEST_ROWS) < 0.5, 1.0, -1.0)
    X = sp.csr_matrix(random.random((len(y), columns)))
    return _words(f"{columns:,} dense columns that say nothing", X, y, n)


def _words(name: str, X: sp.csr_matrix, y: NDArray[np.float64], n: int) -> Words:
    """Return the rows with a constant, of which the first n train."""
    with_constant = sp.hstack([X, np.ones((len(y), 1))]).tocsr()
    return Words(name, with_constant[:n], y[:n], with_constant[n:], y[n:])


WORDS: tuple[Callable[[], Words], ...] = (
    partial(texts, 2000, 20_000, 50),
    partial(texts, 10_000, 20_000, 50),
    partial(texts, 20_000, 54_876, 100),
    few_pages,
    partial(dense, 1000, 1500),
)
