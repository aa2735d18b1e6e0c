"""Guarantees that may be charged under each relation, against exact laws on small datasets.

The proofs are in docs/proofs/relation.md.

A dataset is the contributions of its records to a sum, from -1, 0 (the null record) and 1, and the noise has std z.
The law of an answer is then a mixture of normal laws, one for each batch.
"""

import itertools
import math
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from scipy.stats import norm

from accounting.calibration import certify
from accounting.divergences.gaussian import gauss_delta
from accounting.errors import CodecError
from accounting.mechanisms import Gaussian, Laplace, Mechanism, PoissonGaussian, WithoutReplacement
from accounting.plan import Plan, PlannedQuery
from accounting.privacy import Relation
from accounting.records.outside import EpsilonDeltaDpEvent, GaussianDpEvent, LaplaceDpEvent, event_from_json

Dataset = tuple[float, ...]
Vector = np.ndarray
RECORDS = 3
RELATIONS: tuple[Relation, Relation] = ("zero_out", "replace_one")
DELTAS = (1e-6, 1e-3, 0.05)
SAMPLED: list[Mechanism] = [
    Gaussian(),
    PoissonGaussian(0.2),
    PoissonGaussian(0.7),
    WithoutReplacement(1, RECORDS),
    WithoutReplacement(2, RECORDS),
]


def _batches(mechanism: Mechanism, records: int) -> list[tuple[float, tuple[int, ...]]]:
    """Return each batch with its probability."""
    positions = range(records)
    if isinstance(mechanism, WithoutReplacement):
        drawn = list(itertools.combinations(positions, mechanism.batch))
        return [(1 / len(drawn), batch) for batch in drawn]
    rate = mechanism.rate if isinstance(mechanism, PoissonGaussian) else 1.0
    sizes = [itertools.combinations(positions, size) for size in range(records + 1)]
    return [(rate ** len(b) * (1 - rate) ** (records - len(b)), b) for b in itertools.chain.from_iterable(sizes)]


def _law(mechanism: Mechanism, dataset: Dataset, z: float, x: Vector) -> Vector:
    """Return the density of one answer at the points x."""
    means = [(weight, sum(dataset[i] for i in batch)) for weight, batch in _batches(mechanism, len(dataset))]
    return np.asarray(sum(weight * norm.pdf(x, mean, z) for weight, mean in means))


def _hockey_stick(p: Vector, q: Vector, gamma: float, step: float) -> float:
    """Return the larger of H_gamma(P, Q) and H_gamma(Q, P)."""
    return max(float(np.maximum(a - gamma * b, 0).sum()) * step for a, b in ((p, q), (q, p)))


def _line(z: float, reach: float = 5.0) -> tuple[Vector, float]:
    x = np.linspace(-reach - 9 * z, reach + 9 * z, 20_001)
    return x, float(x[1] - x[0])


def _neighbors(relation: Relation) -> Iterator[tuple[Dataset, Dataset]]:
    values = (-1.0, 0.0, 1.0)
    for common in itertools.combinations_with_replacement(values, RECORDS - 1):
        for first, second in itertools.combinations(values, 2):
            if relation == "replace_one" or 0.0 in (first, second):
                yield (first, *common), (second, *common)


def _excess(mechanism: Mechanism, z: float, pairs: Sequence[tuple[Dataset, Dataset]], relation: Relation) -> float:
    """Return the largest exact delta over the stated one, at each epsilon that the accountant states."""
    x, step = _line(z)
    plan = Plan((PlannedQuery("answer", 1, mechanism, z),), relation)
    laws = {dataset: _law(mechanism, dataset, z, x) for dataset in set(itertools.chain.from_iterable(pairs))}
    worst = 0.0
    for delta in DELTAS:
        gamma = math.exp(certify(plan, delta)[0])
        for first, second in pairs:
            worst = max(worst, _hockey_stick(laws[first], laws[second], gamma, step) / delta)
    return worst


@pytest.mark.parametrize("z", [0.6, 2.0])
@pytest.mark.parametrize("mechanism", SAMPLED, ids=repr)
def test_an_event_covers_contributions_up_to_its_bound_under_both_relations(mechanism: Mechanism, z: float) -> None:
    zeroed_pairs, replaced_pairs = list(_neighbors("zero_out")), list(_neighbors("replace_one"))
    assert _excess(mechanism, z, zeroed_pairs, "zero_out") <= 1 + 1e-4
    assert 0.8 <= _excess(mechanism, z, replaced_pairs, "replace_one") <= 1 + 1e-4
    assert _excess(mechanism, z, replaced_pairs, "zero_out") > 1.5, (
        "the price of a blank record does not cover another record"
    )


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("mechanism", SAMPLED, ids=repr)
def test_the_curves_that_a_session_is_charged_by_cover_every_pair(mechanism: Mechanism, relation: Relation) -> None:
    """Renyi divergences, and the mu of known batches, also if other answers are given in between."""
    z, orders = 0.9, (1.5, 4.0)
    x, step = _line(z)
    curves = mechanism.curves(z, relation)
    assert curves.gdp_bound is not None
    limits = curves.rdp(orders)
    for pair in _neighbors(relation):
        laws = [_law(mechanism, dataset, z, x) for dataset in pair]
        for p, q in (laws, laws[::-1]):
            divergences = [
                math.log(float((q * np.exp(a * (np.log(p) - np.log(q)))).sum()) * step) / (a - 1) for a in orders
            ]
            assert (np.array(divergences) <= limits * (1 + 1e-6) + 1e-9).all()
        for epsilon in (0.0, 1.0, 3.0):
            limit = gauss_delta(curves.gdp_bound, epsilon)
            assert _hockey_stick(laws[0], laws[1], math.exp(epsilon), step) <= limit + 1e-6


def test_a_removed_record_is_no_blank_one_for_batches_of_a_fixed_size() -> None:
    """The rest is drawn more often. One answer then is not 1/z-GDP, the cost of a blank record, but within 2/z-GDP."""
    z, gamma = 0.25, math.exp(10.0)
    x, step = _line(z)
    one_of_two, one_of_one = WithoutReplacement(1, 2), WithoutReplacement(1, 1)
    both, blank = (_law(one_of_two, dataset, z, x) for dataset in ((1.0, -1.0), (0.0, -1.0)))
    removed = _law(one_of_one, (-1.0,), z, x)
    limits = [gauss_delta(one_of_two.curves(z, relation).gdp_bound or 0.0, 10.0) for relation in RELATIONS]
    assert _hockey_stick(both, blank, gamma, step) <= limits[0]
    assert limits[0] < _hockey_stick(both, removed, gamma, step) <= limits[1]


def test_a_sensitivity_between_records_does_not_cover_a_blank_record() -> None:
    """Values of 100 or 101 move a sum by 1 when one is replaced, and by 101 when one becomes blank."""
    z, delta = 2.0, 1e-6
    stated = certify(Plan((PlannedQuery("sum", 1, Gaussian(), z),), "zero_out"), delta)[0]
    assert gauss_delta(1 / z, stated) <= delta < gauss_delta(101 / z, stated)


@pytest.mark.parametrize(("mechanism", "is_covered"), [(PoissonGaussian(0.3), False), (WithoutReplacement(1, 2), True)])
def test_a_sensitivity_between_records_is_enough_for_batches_of_a_fixed_size_alone(
    mechanism: Mechanism, is_covered: bool
) -> None:
    """Records of 100 or 101, whose sensitivity 1 is two bounds of 1/2; the noise is stated over 1/2."""
    std, delta = 0.5, 1e-3
    x = np.linspace(-5, 215, 200_001)
    epsilon = certify(Plan((PlannedQuery("sum", 1, mechanism, std / 0.5),)), delta)[0]
    pairs = [((100.0, companion), (101.0, companion)) for companion in (100.0, 101.0)]
    laws = [[_law(mechanism, dataset, std, x) for dataset in pair] for pair in pairs]
    actual = max(_hockey_stick(p, q, math.exp(epsilon), float(x[1] - x[0])) for p, q in laws)
    assert (actual <= delta * (1 + 1e-4)) == is_covered


def test_noise_without_sampling_costs_twice_the_shift_of_a_blank_record() -> None:
    for z in (0.5, 3.0):
        zeroed, replaced = (GaussianDpEvent(z).curves(relation) for relation in RELATIONS)
        assert (zeroed.gdp_bound, replaced.gdp_bound) == pytest.approx((1 / z, 2 / z))
        assert np.allclose(4 * zeroed.rdp([2.0, 7.0]), replaced.rdp([2.0, 7.0]), rtol=1e-12)
        zeroed, replaced = (LaplaceDpEvent(z).curves(relation) for relation in RELATIONS)
        assert (zeroed.pure, replaced.pure) == pytest.approx((1 / z, 2 / z))
        assert Laplace().curves(z, "replace_one").pure == pytest.approx(2 / z)


def test_a_pure_epsilon_between_records_is_up_to_twice_that_of_a_blank_one() -> None:
    """An answer says yes with these probabilities for a record, the blank one, and another record."""
    epsilon = 0.7
    yes = [0.25 * math.exp(shift) for shift in (epsilon, 0.0, -epsilon)]
    steps = [abs(math.log(a / b)) for p, q in itertools.pairwise(yes) for a, b in ((p, q), (1 - p, 1 - q))]
    assert max(steps) == pytest.approx(epsilon)
    assert math.log(yes[0] / yes[2]) == pytest.approx(2 * epsilon)
    curves = [EpsilonDeltaDpEvent(2 * epsilon).curves(relation) for relation in RELATIONS]
    assert [curve.pure for curve in curves] == pytest.approx([2 * epsilon] * 2)


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.5])
def test_an_epsilon_with_a_delta_has_no_event(delta: float) -> None:
    with pytest.raises(CodecError):
        event_from_json({"type": "EpsilonDeltaDpEvent", "epsilon": 1.0, "delta": delta})
