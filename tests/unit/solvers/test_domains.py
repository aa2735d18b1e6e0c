"""Nearest points and diameters of domains, compared with slow references."""

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import brentq

from solvers.domains import Domain, Free, L1Ball, L2Ball, LinfBall, Simplex
from tests.support.operations import operations

Floats = NDArray[np.float64]
Bounded = L2Ball | L1Ball | LinfBall | Simplex

KINDS = [kind for kind in get_args(Domain) if kind is not Free]

radii = st.floats(1e-3, 1e3)
domains = st.one_of(*(st.builds(kind, radius=radii) for kind in KINDS))
vectors = st.integers(1, 12).flatmap(lambda d: arrays(np.float64, d, elements=st.floats(-1e4, 1e4)))


def _room(domain: Bounded, w: Floats) -> float:
    """Roundings at the size of what is handled."""
    return 1e-9 * (domain.radius + float(np.abs(w).max()))


def _inside(domain: Bounded, w: Floats, room: float) -> bool:
    match domain:
        case L2Ball(radius):
            return float(np.linalg.norm(w)) <= radius + room
        case L1Ball(radius):
            return float(np.abs(w).sum()) <= radius + room
        case LinfBall(radius):
            return float(np.abs(w).max()) <= radius + room
        case Simplex(radius):
            return bool((w >= 0).all()) and abs(float(w.sum()) - radius) <= room


def _points(domain: Bounded, d: int, count: int, seed: int) -> Floats:
    """Points of the domain, vertices among them."""
    bits = np.random.default_rng(seed)
    e, corners = np.eye(d), bits.choice([-1.0, 1.0], (count, d))
    share = bits.dirichlet(np.full(d, 0.5), count)
    match domain:
        case L2Ball():
            raw = bits.standard_normal((count, d))
            unit = np.concatenate([raw / np.linalg.norm(raw, axis=1, keepdims=True), e, -e])
        case L1Ball():
            unit = np.concatenate([share * corners, e, -e])
        case LinfBall():
            unit = np.concatenate([corners, bits.uniform(-1, 1, (count, d))])
        case Simplex():
            unit = np.concatenate([share, e])
    return domain.radius * unit


def _nearest(domain: Bounded, w: Floats) -> Floats:
    """Projection by bisection on the multiplier of its one constraint."""
    radius = domain.radius
    match domain:
        case LinfBall():
            return np.array([min(max(x, -radius), radius) for x in w])
        case L2Ball():
            if np.linalg.norm(w) <= radius:
                return w
            nu = brentq(lambda nu: np.linalg.norm(w / (1 + nu)) - radius, 0, 2 * np.linalg.norm(w) / radius)
            return np.asarray(w / (1 + nu))
        case L1Ball():
            if np.abs(w).sum() <= radius:
                return w
            t = brentq(lambda t: np.maximum(np.abs(w) - t, 0).sum() - radius, 0, np.abs(w).max())
            return np.sign(w) * np.maximum(np.abs(w) - t, 0)
        case Simplex():
            top = float(w.max())
            t = brentq(lambda t: np.maximum(w - top - t, 0).sum() - radius, -radius, 0)
            return np.maximum(w - top - t, 0)


class TestProjection:
    @settings(max_examples=60, deadline=None)
    @given(domains, vectors)
    def test_equals_the_result_of_a_bisection(self, domain: Bounded, w: Floats) -> None:
        np.testing.assert_allclose(domain.project(w), _nearest(domain, w), rtol=0, atol=_room(domain, w))

    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(domains, vectors)
    def test_is_inside_and_stays(self, domain: Bounded, w: Floats) -> None:
        original, projected = w.copy(), domain.project(w)
        assert _inside(domain, projected, _room(domain, w))
        np.testing.assert_allclose(domain.project(projected), projected, rtol=0, atol=_room(domain, w))
        np.testing.assert_array_equal(w, original)

    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(domains, vectors, st.integers(0, 2**32))
    def test_no_point_is_nearer(self, domain: Bounded, w: Floats, seed: int) -> None:
        projected = domain.project(w)
        for v in _points(domain, len(w), 20, seed):
            # the angle at the nearest point is never acute
            assert (w - projected) @ (v - projected) <= 10 * len(w) * _room(domain, w) * (
                np.linalg.norm(w) + domain.radius
            )

    @pytest.mark.slow
    @settings(max_examples=60, deadline=None)
    @given(domains, st.data())
    def test_never_parts_two_points(self, domain: Bounded, data: st.DataObject) -> None:
        u = data.draw(vectors)
        w = data.draw(arrays(np.float64, len(u), elements=st.floats(-1e4, 1e4)))
        apart = np.linalg.norm(domain.project(u) - domain.project(w))
        assert apart <= np.linalg.norm(u - w) + 10 * _room(domain, np.concatenate([u, w]))

    @pytest.mark.parametrize("kind", KINDS)
    def test_from_far_away_no_radius_is_lost(self, kind: type[Bounded]) -> None:
        projected = kind(radius=1.0).project(np.array([1e100, 3.0, -1e90]))
        np.testing.assert_allclose(projected, [1.0, 1.0, -1.0] if kind is LinfBall else [1.0, 0.0, 0.0], atol=1e-9)
        ties = kind(radius=1.0).project(np.full(4, 1e100))
        expected = {LinfBall: 1.0, L2Ball: 0.5, L1Ball: 0.25, Simplex: 0.25}[kind]
        np.testing.assert_allclose(ties, expected)


class TestSize:
    @settings(max_examples=60, deadline=None)
    @given(domains, st.integers(1, 12), st.integers(0, 2**32))
    def test_diameter(self, domain: Bounded, d: int, seed: int) -> None:
        points = _points(domain, d, 30, seed)
        apart = np.linalg.norm(points[:, None] - points[None], axis=2).max()
        assert apart <= domain.diameter(d) * (1 + 1e-12) + 1e-12
        if isinstance(domain, LinfBall):
            apart = np.linalg.norm(2 * points[0])  # a corner and its opposite
        assert apart == pytest.approx(domain.diameter(d), rel=1e-12)

    def test_the_whole_space(self) -> None:
        w = np.array([1.0, -2.0])
        assert Free().project(w) is w
        assert Free().diameter(2) == math.inf


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20, deadline=None)
@given(vectors)
def test_points_inside_and_outside_take_the_same_operations(kind: type[Bounded], w: Floats) -> None:
    """Some points are private when they are projected: no branch may depend on where they are."""
    domain = kind(radius=1.0)
    outside, inside = (operations(lambda point=point: domain.project(point)) for point in (w, np.zeros_like(w)))  # type: ignore[misc]
    assert outside == inside


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("radius", [0.0, -1.0, math.nan, math.inf, 1e-7, 1e7, True])
def test_a_radius_out_of_range_is_refused(kind: type[Bounded], radius: float) -> None:
    with pytest.raises(ValueError, match="radius"):
        kind(radius=radius)
