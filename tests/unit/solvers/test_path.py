"""Points of an adaptive descent, and the weight of an l1 that is learned from its answers."""

import numpy as np
import pytest

from accounting import Privacy
from solvers import Problem, solve
from solvers.columns import Columns
from solvers.frame import Frame
from solvers.losses import Logistic
from solvers.methods import AdaptiveGd
from solvers.methods.path import L1Weight, Path
from solvers.methods.slopes import longest_row
from solvers.methods.standardised import adaptive_gd


def test_an_l1_pulls_from_where_the_mean_lies_and_not_at_the_intercept_nor_at_first() -> None:
    columns = Columns((1, 1))
    problem = Problem(Logistic(), n=10, d=3, row_norm=columns.row_norm, columns=columns)
    path = Path(problem, Frame(np.zeros(2), np.array([2.0, 0.5]), 0.3))
    path.descend(np.array([0.3, -0.1, 5.0]), np.zeros(3), np.zeros(3), 1.0, 1)
    assert not path.l1_direction(0.1, 10).any()
    along = path.l1_direction(0.1, 11)
    np.testing.assert_allclose(along, [0.75, -0.5, 0.0])
    np.testing.assert_allclose(path.penalties(0.0, 2.0, 0.1, 11) * [0.3, -0.1, 5.0], 2 * along)


def test_the_longest_row_is_the_longest_corner_of_the_columns() -> None:
    columns = Columns((1, 3, 1), ((-0.5, 1.0), (0.0, 0.2)))
    frame = Frame(np.array([0.4, 0.1, 0.6, 0.3, 0.15]), np.array([2.0, 1.0, 0.5, 3.0, 4.0]), 0.3)
    corners = [[first, *block, last, 1.0] for first in (-0.5, 1.0) for block in np.eye(3) for last in (0.0, 0.2)]
    lengths = np.linalg.norm(frame.rows(np.array(corners)), axis=1)
    assert longest_row(frame, columns) == pytest.approx(lengths.max())
    assert longest_row(Frame(np.zeros(0), np.zeros(0), 0.3), Columns(())) == pytest.approx(0.3)


@pytest.mark.parametrize(("best", "expected"), [(2.0, 2.0), (0.5, 0.5), (-4.0, 0.0), (9.0, 3.0)])
def test_the_weight_goes_where_the_objective_is_level_but_no_farther_than_its_ends(
    best: float, expected: float
) -> None:
    weight, along = L1Weight(1.0, 0.5, 1.0), np.array([1.0, -0.5, 0.0])
    for _ in range(3000):
        weight.learn((best - weight.value) * along + np.array([0.0, 0.0, 7.0]), along)
    assert weight.value == pytest.approx(expected, abs=0.1)


def test_the_weight_is_the_mean_of_its_prior_and_of_noisy_answers() -> None:
    """After one answer: the prior counts 1 / width^2, the answer ||s||^2 / std^2."""
    weight = L1Weight(1.0, 0.5, 3.0)
    weight.learn(np.array([2.0, 0.0]), np.array([1.0, 1.0]))
    assert weight.value == pytest.approx((1 * 4 + (1 + 2 / 2) * 2 / 9) / (4 + 2 / 9))


def test_coordinates_that_l1_does_not_pull_do_not_change_its_weight() -> None:
    weight = L1Weight(1.0, 0.5, 1.0)
    weight.learn(np.array([100.0, -100.0]), np.zeros(2))
    assert weight.value == 1.0


@pytest.mark.slow
def test_many_coefficients_that_matter_get_less_l1_than_few(monkeypatch: pytest.MonkeyPatch) -> None:
    weights: list[L1Weight] = []

    class Recorded(L1Weight):
        def __init__(self, mean: float, std: float, answer_std: float) -> None:
            super().__init__(mean, std, answer_std)
            self.first = mean
            weights.append(self)

    monkeypatch.setattr(adaptive_gd, "L1Weight", Recorded)
    generator, n, d, shares = np.random.default_rng(1), 10_000, 100, []
    columns = Columns((1,) * d)
    problem = Problem(Logistic(), n=n, d=d + 1, row_norm=columns.row_norm, columns=columns)
    X = np.c_[generator.uniform(-1, 1, (n, d)), np.ones(n)]
    for matter in (3, d):
        margin = X[:, :matter] @ (2.5 * np.sqrt(3 / matter) * generator.choice([-1.0, 1.0], matter))
        y = np.where(generator.random(n) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)
        solve(AdaptiveGd(), problem, X, y, Privacy(1.0, 1e-5))
        shares.append(weights[-1].value / weights[-1].first)  # type: ignore[attr-defined]
    share_of_few, share_of_many = shares
    assert share_of_many < 0.5 < 0.8 < share_of_few
