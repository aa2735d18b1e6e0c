"""Profiles: their answers, their bounds, and jobs that are standardised by a profile."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from accounting import Privacy
from accounting.calibration import certify
from accounting.divergences.gaussian import gauss_mu
from accounting.noise import Noise
from accounting.plan import Plan, PlannedQuery
from solvers import Problem, count_bounds, moment_bounds, plan, solve
from solvers.columns import Columns
from solvers.data_access import inputs
from solvers.data_access.counting import CountingOracle
from solvers.data_access.meter import Meter
from solvers.data_access.standardised import StandardisedOracle
from solvers.errors import NeedsDelta, Unsuitable
from solvers.losses import Absolute, Hinge, Logistic, Softmax, Squared
from solvers.methods import (
    AdaptiveGd,
    AdaSsp,
    DpGd,
    DpSvrg,
    InverseSensitivity,
    Localization,
    Method,
    NoisyMirrorDescent,
    ObjectivePerturbation,
)
from solvers.preparation import ByProfile, Declared, Private, moments
from solvers.preparation.moments import Moments
from solvers.problem import Vector
from solvers.selection import Auto
from solvers.solve import run
from solvers.statistics import Profile
from tests.support.coupled import complaints
from tests.support.mutants import used_before_noise
from tests.support.profiled import LAYOUT, PROFILE_MOMENTS, N, random_records
from tests.support.seeded import SeededBits

PROBLEM = Problem(Logistic(), n=N, d=LAYOUT.d, row_norm=LAYOUT.row_norm, columns=LAYOUT)
TABLE = replace(PROBLEM, loss=Squared())
PRIVACY = Privacy(1.0, 1e-6)
FAR_RECORD = (np.array([1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]), -1.0)


@pytest.fixture(scope="module")
def rows() -> tuple[Vector, Vector]:
    return random_records()


def profiled(rows: tuple[Vector, Vector], privacy: Privacy = PRIVACY, bins: int = 8) -> tuple[Moments, Vector, Plan]:
    quote = plan(Profile(bins), TABLE, privacy)
    answers, transcript, _ = run(
        Profile(bins), TABLE, inputs.of_arrays(*rows, TABLE), quote.release, Noise(SeededBits(2))
    )
    return *Profile(bins).unpack(TABLE, answers)[:2], transcript


class TestProfile:
    def test_one_plan_of_four_gaussian_answers_holds_the_promise(self, rows: tuple[Vector, Vector]) -> None:
        quote = plan(Profile(8), TABLE, PRIVACY)
        assert [q.name for q in quote.release.plan.queries] == ["means", "spread", "variances", "histograms"]
        shares = [4 / q.noise_multiplier**2 / gauss_mu(1.0, 1e-6) ** 2 for q in quote.release.plan.queries]
        assert shares == pytest.approx([0.4, 0.05, 0.25, 0.3], rel=1e-6)
        assert quote.gradient_evaluations == 4 * N
        assert quote.risk_bound.excess_risk is None
        assert profiled(rows)[2] == quote.release.plan
        assert certify(quote.release.plan, 1e-6)[0] <= 1.0

    def test_categories_alone_are_one_answer(self) -> None:
        flat = Columns((2, 3))
        table = Problem(Squared(), n=N, d=flat.d, row_norm=flat.row_norm, columns=flat)
        quote = plan(Profile(), table, PRIVACY)
        assert [q.name for q in quote.release.plan.queries] == ["means"]
        X = np.column_stack((np.tile([1.0, 0.0], (N, 1)), np.tile([0.0, 0.0, 1.0], (N, 1)), np.ones(N)))
        answers, *_ = run(Profile(), table, inputs.of_arrays(X, np.zeros(N), table), quote.release)
        assert answers.shape == (Profile().size(table),) == (15,)

    def test_with_hardly_any_noise_it_equals_the_columns(self, rows: tuple[Vector, Vector]) -> None:
        X = rows[0][:, :-1]
        released, counts, _ = profiled(rows, Privacy(100.0, 1e-2))
        assert released.center == pytest.approx(X.mean(axis=0), abs=0.02)
        numbers = [0, 4, 5]
        spread = ((X - X.mean(axis=0)) ** 2).mean(axis=0)
        assert np.array(released.variances)[numbers] == pytest.approx(spread[numbers], abs=0.05)  # far rows are cut
        m = np.array(released.center)[1:4]
        assert released.variances[1:4] == pytest.approx(m * (1 - m))
        for j, (low, high), histogram in zip(numbers, LAYOUT.ranges, counts, strict=True):
            assert histogram == pytest.approx(np.histogram(X[:, j], 8, (low, high))[0], abs=6)

    def test_ends_of_a_range_are_counted_in_its_first_and_last_bin(self) -> None:
        X = np.tile([-1.0, 1.0, 0.0, 0.0, 1.0, -0.5, 1.0], (N, 1))
        _, counts, _ = profiled((X, np.ones(N)), Privacy(100.0, 1e-2))
        assert counts.argmax(axis=1).tolist() == [0, 7, 0]
        assert counts.sum(axis=1) == pytest.approx([N] * 3, abs=10)

    def test_no_answer_moves_by_more_than_its_bound(self, rows: tuple[Vector, Vector]) -> None:
        for quote in (plan(Profile(8), TABLE, PRIVACY), plan(Profile(1024), TABLE, PRIVACY)):
            assert complaints(quote, *rows, FAR_RECORD) == []

    @pytest.mark.parametrize(
        ("owner", "name", "mutant"),
        [
            (count_bounds, "cells", lambda *_: math.sqrt(2) / 2),
            (moment_bounds, "diameter", lambda columns: math.sqrt(2 * len(columns.widths))),
            (moment_bounds, "variances", lambda *_: 0.05),
        ],
        ids=["one column alone is counted", "numbers move like categories", "variances"],
    )
    def test_a_forgotten_sensitivity_is_caught(
        self, owner: Any, name: str, mutant: Any, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quote = plan(Profile(8), TABLE, PRIVACY)
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, mutant)
            assert complaints(quote, *rows, FAR_RECORD) != []

    def test_exact_counts_are_caught(self, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch) -> None:
        """Mutant: pay for the counts, and release their exact values."""
        monkeypatch.setattr(Meter, "answer", used_before_noise("histograms"))
        assert complaints(plan(Profile(8), TABLE, PRIVACY), *rows, FAR_RECORD) != []

    def test_requests_that_cannot_be_met_are_refused(self, rows: tuple[Vector, Vector]) -> None:
        with pytest.raises(NeedsDelta, match="need delta"):
            plan(Profile(), TABLE, Privacy(1.0))
        for bins in (0, 1025, True):
            with pytest.raises(Unsuitable, match="bins"):
                plan(Profile(bins), TABLE, PRIVACY)
        many = Columns((1,) * 400)
        with pytest.raises(Unsuitable, match="Use fewer"):
            plan(Profile(1024), Problem(Squared(), n=N, d=401, row_norm=many.row_norm, columns=many), PRIVACY)
        with pytest.raises(Unsuitable, match="declared columns"):
            plan(Profile(), replace(TABLE, columns=None), PRIVACY)
        with pytest.raises(Unsuitable, match="clipped"):
            plan(Profile(), replace(TABLE, row_norm=1.0), PRIVACY)
        data, noise = inputs.of_arrays(*rows, TABLE), Noise()
        planned = plan(Profile(), TABLE, PRIVACY).release.plan
        counting = CountingOracle(TABLE, data, planned, noise)
        for bins in (0, 2**16 + 1):
            with pytest.raises(Unsuitable, match="bins"):
                counting.histograms("histograms", bins)


METHODS: list[Any] = [DpGd(steps=5), ObjectivePerturbation(), Localization()]
METHODS += [pytest.param(method, marks=pytest.mark.slow) for method in (DpSvrg(), NoisyMirrorDescent())]


class TestByProfile:
    @pytest.mark.parametrize("method", METHODS, ids=lambda method: str(method.name))
    def test_the_moments_that_private_preparation_would_have_drawn_give_its_model(
        self, method: Method, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each answer's noise is a function of its query and number alone, each batch of the seed."""
        problem, drawn = replace(PROBLEM, loss=Logistic()), []
        answered = moments.answered

        def recorded(*arguments: Any) -> Moments:
            drawn.append(answered(*arguments))
            return drawn[-1]

        def by_name(meter: Meter, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
            seed = [*planned.name.encode(), meter.answered(planned.name)]
            std = planned.mechanism.std(planned.noise_multiplier, bound, value.size)
            total = np.atleast_2d(value).sum(axis=0)
            return np.asarray(total + np.random.default_rng(seed).normal(scale=std, size=total.shape))

        monkeypatch.setattr(moments, "answered", recorded)
        monkeypatch.setattr(Meter, "perturb", by_name)
        asking = plan(method, problem, PRIVACY)
        assert asking.preparation == Private()
        data = inputs.of_arrays(*rows, asking.problem)
        private_answer, transcript, _ = run(
            asking.method, asking.problem, data, asking.release, Noise(SeededBits(1)), preparation=Private()
        )
        method_queries = tuple(q for q in asking.release.plan.queries if q.name not in Private().bounds(problem))
        method_release = replace(asking.release, plan=Plan(method_queries))
        by = ByProfile(drawn[0])
        profile_answer, method_transcript, _ = run(
            asking.method, asking.problem, data, method_release, Noise(SeededBits(1)), preparation=by
        )
        assert np.array_equal(private_answer, profile_answer)
        assert {q.name for q in transcript.queries} - {q.name for q in method_transcript.queries} == {
            "means",
            "spread",
            "variances",
        }
        assert len(drawn) == 1

    @pytest.mark.parametrize("method", [*METHODS, AdaSsp(), AdaptiveGd(), Auto()], ids=lambda method: str(method.name))
    def test_the_whole_price_goes_to_training(self, method: Method | Auto) -> None:
        loss = Squared() if isinstance(method, AdaSsp) else Logistic()
        problem = replace(PROBLEM, loss=loss, n=20_000)
        quote = plan(method, problem, PRIVACY, preparation=ByProfile(PROFILE_MOMENTS))
        asking = plan(method, problem, PRIVACY)
        names = {q.name for q in quote.release.plan.queries}
        assert not names & {"means", "spread", "variances"}
        multipliers = {q.name: q.noise_multiplier for q in asking.release.plan.queries}
        assert multipliers.keys() - names == {"means", "spread", "variances"}
        for query in quote.release.plan.queries:
            assert query.noise_multiplier < multipliers[query.name]
        if quote.release.plan.gdp() is not None:
            assert quote.release.plan.gdp() == pytest.approx(gauss_mu(1.0, 1e-6), rel=1e-6)
        assert quote.preparation.name == "profile"
        assert quote.preparation_reason == "requested"
        assert quote.release.epsilon <= 1.0

    @pytest.mark.parametrize("method", [DpGd(), AdaptiveGd()], ids=lambda method: str(method.name))
    def test_a_finer_profile_is_believed_no_more_than_private_moments_of_the_same_price(self, method: Method) -> None:
        """Measured: a rare category that only the profile resolves is scaled up to where gradients are noise."""
        fine = replace(PROFILE_MOMENTS, noise=(1e-9,) * 6)
        asking = {q.name: q.noise_multiplier for q in plan(method, PROBLEM, PRIVACY).release.plan.queries}
        preparation = plan(method, PROBLEM, PRIVACY, preparation=ByProfile(fine)).preparation
        assert isinstance(preparation, ByProfile)
        assert replace(preparation.moments, noise=fine.noise) == fine
        means = asking["means"] * moment_bounds.diameter(LAYOUT) / 2 / N
        spread = PROFILE_MOMENTS.variances[0] + PROFILE_MOMENTS.variances[4] + PROFILE_MOMENTS.variances[5]
        bound = moment_bounds.variances(LAYOUT, np.array(PROFILE_MOMENTS.center), 1.2 * math.sqrt(1.1 * spread))
        variances = asking["variances"] * bound / N
        expected = (variances, means, means, means, variances, variances)
        assert preparation.moments.noise == pytest.approx(expected, rel=1e-6)
        coarse = ByProfile(replace(PROFILE_MOMENTS, noise=(3.0,) * 6))
        coarse_preparation = plan(method, PROBLEM, PRIVACY, preparation=coarse).preparation
        assert isinstance(coarse_preparation, ByProfile)
        assert coarse_preparation.moments == coarse.moments

    def test_a_quote_knows_nothing_of_the_moments(self) -> None:
        for method in (DpGd(), AdaptiveGd(), Auto()):
            first, second = (
                plan(method, PROBLEM, PRIVACY, preparation=ByProfile(moment_values))
                for moment_values in (PROFILE_MOMENTS, Moments((0.0,) * 6, (1.0,) * 6, (4.0,) * 6))
            )
            assert first.release == second.release
            assert first.method == second.method
            assert replace(first.met, moments=None) == replace(second.met, moments=None)
            assert (first.noise_stds, first.risk_bound) == (second.noise_stds, second.risk_bound)

    @pytest.mark.parametrize("loss", [Logistic(), Softmax(3), Squared()], ids=lambda loss: str(loss.name))
    def test_auto_takes_adaptive_gd_which_requests_gradients_alone(
        self, loss: Any, rows: tuple[Vector, Vector], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, y = rows
        by = ByProfile(profiled(rows, Privacy(10.0, 1e-6))[0])

        def refuse(*_: Any) -> None:
            raise AssertionError("a moment was requested")

        for name in ("means", "spread", "variances"):
            monkeypatch.setattr(StandardisedOracle, name, refuse)
        target = (y + 1) if isinstance(loss, Softmax) else y
        release = solve(Auto(), replace(PROBLEM, loss=loss), X, target, Privacy(10.0, 1e-6), preparation=by)
        assert release.method.name == "adaptive_gd"
        assert not {q.name for q in release.transcript.queries} & {"means", "spread", "variances"}
        w = release.coefficients.reshape(-1, LAYOUT.d)
        margin = X @ (w[0] if len(w) == 1 else w[2] - w[0])
        assert (np.sign(margin) == y).mean() > 0.75

    def test_the_center_of_the_profile_is_the_centers(self, rows: tuple[Vector, Vector]) -> None:
        """With slopes at rest a model is what its frame makes of the moments: the frame is theirs alone."""
        frame = ByProfile(PROFILE_MOMENTS).frame(None, PROBLEM)  # type: ignore[arg-type]
        assert frame is not None
        assert frame.center == pytest.approx(PROFILE_MOMENTS.center)
        ratio = frame.scale / np.array(PROFILE_MOMENTS.variances) ** -0.25
        assert ratio == pytest.approx([ratio[0]] * 6)
        assert ByProfile(PROFILE_MOMENTS, by_method=True).frame(None, PROBLEM) is None  # type: ignore[arg-type]
        assert len(rows[0]) == N

    def test_pure_answers_may_follow_a_profile_at_a_positive_delta(self) -> None:
        """Private preparation would cost them a delta; what was released before costs nothing."""
        line = Columns((1,))
        problem = Problem(Hinge(), n=N, d=2, row_norm=line.row_norm, columns=line)
        pure = Localization(noise="laplace")
        assert plan(pure, problem, PRIVACY).preparation == Declared()
        quote = plan(pure, problem, PRIVACY, preparation=ByProfile(Moments((0.1,), (0.2,), (0.01,))))
        assert quote.preparation.name == "profile"
        assert quote.release.plan.pure() is not None

    def test_refusals_state_the_reason(self) -> None:
        def refused(problem: Problem, privacy: Privacy, by: ByProfile, method: Method | Auto) -> str:
            with pytest.raises(Unsuitable) as raised:
                plan(method, problem, privacy, preparation=by)
            return str(raised.value)

        by, short = ByProfile(PROFILE_MOMENTS), ByProfile(PROFILE_MOMENTS.at([0, 1]))
        for method in (DpGd(), AdaptiveGd(), Auto()):
            assert "delta > 0" in refused(PROBLEM, Privacy(1.0), by, method)
            assert "another layout" in refused(PROBLEM, PRIVACY, short, method)
            assert "declared columns" in refused(replace(PROBLEM, columns=None), PRIVACY, by, method)
            assert "row_norm" in refused(replace(PROBLEM, row_norm=1.0), PRIVACY, by, method)
        alone = Columns(())
        still = Problem(Absolute(), n=N, d=1, row_norm=1.0, columns=alone)
        none = ByProfile(Moments((), (), ()))
        assert "no column" in refused(still, PRIVACY, none, InverseSensitivity())


class TestMoments:
    @pytest.mark.parametrize("part", ["center", "variances", "noise"])
    @pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.5, 1e31])
    def test_moments_that_no_oracle_could_answer_are_refused(self, part: str, wrong: float) -> None:
        with pytest.raises(Unsuitable):
            replace(PROFILE_MOMENTS, **{part: (wrong, *getattr(PROFILE_MOMENTS, part)[1:])})
        with pytest.raises(Unsuitable, match="for each coordinate"):
            replace(PROFILE_MOMENTS, **{part: getattr(PROFILE_MOMENTS, part)[1:]})

    def test_a_variance_below_its_noise_is_raised_to_it(self) -> None:
        released = Moments((0.0, 0.0, 0.0), (0.0, 1.0, 0.1), (0.5, 0.5, 9.0))
        assert released.floored(1.0).tolist() == [0.5, 1.0, 4.0]
        assert released.floored(3.0).tolist() == [1.5, 1.5, 4.0]
        assert released.at([2, 0]) == Moments((0.0, 0.0), (0.1, 0.0), (9.0, 0.5))
