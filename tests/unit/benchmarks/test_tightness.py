"""The worst known datasets: none has a larger epsilon than the certificate, and some have the certified one."""

import pytest

from accounting import Privacy
from accounting.calibration import calibrate
from accounting.divergences.gaussian import gauss_epsilon
from accounting.plan import Query
from accounting.privacy import Relation, sensitivity_factor
from benchmarks.tightness import DELTA, EPSILON, ROWS, Row, composed

EXACT = ("Gaussian", "Poisson", "Laplace")


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace_one", "zero_out"])
@pytest.mark.parametrize("row", ROWS, ids=[row.label for row in ROWS])
def test_no_known_dataset_exceeds_a_certificate(row: Row, relation: Relation) -> None:
    release = calibrate((Query("q", row.uses, row.mechanism),), Privacy(EPSILON, row.delta), relation)
    epsilon_of_dataset = row.worst(release.plan.queries[0].noise_multiplier, sensitivity_factor(relation))
    assert epsilon_of_dataset <= release.epsilon * 1.001
    if row.label.startswith(EXACT):
        assert epsilon_of_dataset >= release.epsilon * 0.998


def test_the_epsilon_of_gaussian_laws_is_the_exact_one() -> None:
    epsilon = composed(((((1.0, 0.05),), ((1.0, 0.0),), 30),))
    assert epsilon == pytest.approx(gauss_epsilon(0.05 * 30**0.5, DELTA), rel=1e-3)
