"""`purse audit` for every method: the promise holds, and half the noise is seen.

Of cases that share every line and branch that they run, the cheapest are tried here; `make audit` tries all.
"""

from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from accounting import Privacy
from accounting.calibration import _calibrate
from accounting.mechanisms import PoissonGaussian, gaussian, random_iterate
from accounting.plan import Plan
from accounting.privacy import REPLACE_ONE, Relation
from solvers import plan
from solvers.audit import CASES, audit
from solvers.audit.attack import halved
from solvers.audit.bounds import DELTAS
from solvers.audit.cases import Case, ExactCase, attacked
from solvers.methods import Method
from solvers.statistics import AnyCounting
from tests.support.audit import beyond, seeded_attack, sources, violates

# The epsilon promised and the runs of either dataset, at most, times the case's effort. At epsilon 6 half the noise
# shows by the fewest runs, since mu is 1.3 and the errors on both sides are judged together: so many that the bound is
# above the promise by three standard deviations of that bound or more, as `make power` measures by drawing the scores
# again. Where a promise is composed of parts, another epsilon shows it best.
TRIED: dict[str, tuple[float, int]] = dict.fromkeys(CASES, (6.0, 360)) | {
    "ada_ssp": (6.0, 340),
    "ada_ssp_boosted": (6.0, 100),
    "adaptive_gd": (6.0, 480),
    "adaptive_gd_numbers": (6.0, 440),
    "adaptive_gd_softmax": (6.0, 440),
    "bootstrap_reduction": (0.8, 400),
    "dp_acc_md": (6.0, 300),
    "dp_gd": (6.0, 300),
    "dp_gd_limited": (6.0, 300),
    "dp_gd_persons": (6.0, 300),
    "dp_gd_random": (8.0, 500),
    "dp_svrg_centred": (6.0, 440),
    "dp_svrg_pp": (5.0, 900),
    "dp_svrg_walk": (6.0, 480),
    "inverse_sensitivity": (1.0, 1),  # its law is computed
    "localization": (6.0, 520),
    "noisy_mirror_descent": (7.0, 560),
    "noisy_sgd": (6.0, 680),
    "objective_perturbation": (6.0, 1600),
    "output_perturbation": (6.0, 350),
    "output_perturbation_laplace": (2.0, 880),
    "profile": (6.0, 550),
    "profile_persons": (6.0, 580),
}


# Whose lines and branches are those of the cases named; or which are attacked harder in a file named.
SHARED = {
    "dp_gd_last": ("test_last_iterate",),
    "dp_svrg": ("dp_svrg_walk", "dp_svrg_pp"),
    "dp_svrg_walk_centred": ("dp_svrg_walk", "dp_svrg_centred", "test_audit_walk"),
    "epoch_growth": ("test_audit_growth",),
    "localization": ("test_audit_growth",),
    "noisy_sgd_persons": ("noisy_sgd", "dp_gd_persons"),
    "noisy_sgd_standardised": ("noisy_sgd", "dp_gd_standardised"),
    "output_perturbation_persons": ("output_perturbation", "dp_gd_persons"),
    "phased_sgd": ("test_audit_growth",),
    "profile": ("profile_persons",),
    "regression_table_logistic": ("test_audit_regression_table",),
    "regression_table_persons": ("test_audit_regression_table",),
    "counts_persons": ("counts", "profile_persons"),
    "evaluation_numbers": ("evaluation",),
    "evaluation_persons": ("evaluation", "profile_persons"),
    "means": ("profile_persons",),
    "quantiles": ("profile_persons",),
    "quantiles_persons": ("profile_persons",),
}


def test_every_method_has_a_case() -> None:
    names = {str(member.__dataclass_fields__["name"].default) for member in get_args(Method)}
    names |= {str(member.__dataclass_fields__["name"].default) for member in get_args(AnyCounting)}
    assert names == {case.method.name for case in CASES.values()}
    assert names <= set(CASES)
    files = {file.stem for file in Path(__file__).parent.iterdir()}
    assert {other for others in SHARED.values() for other in others} <= (set(CASES) - set(SHARED)) | files


@pytest.mark.parametrize("name", sorted(set(CASES) - set(SHARED)))
def test_the_promise_is_kept_and_half_the_noise_is_caught(name: str) -> None:
    assert told(name) == (False, True)


def told(name: str, relation: Relation = REPLACE_ONE) -> tuple[bool, bool]:
    """Whether the case, and whether half its noise, is found to break its promise."""
    case, (epsilon, runs) = CASES[name], TRIED[name]
    privacy = Privacy(epsilon, case.privacy.delta)
    if isinstance(case, ExactCase):
        (exactly,) = audit(name, runs, privacy=privacy, relation=relation)
        return exactly.lower_bound > exactly.promise, exactly.half_noise > exactly.promise
    plan, attack = attacked(case, privacy, relation)

    def found(noisy: Plan) -> bool:
        noise = sources(31)
        return violates(lambda more: attack(noisy, more, noise), runs, beyond(plan))

    return found(plan), found(halved(plan))


def test_what_is_printed_of_a_case_is_of_its_plan_and_of_half_its_noise() -> None:
    """`purse audit`, which looks once, at every delta: what is promised, kept and broken."""
    privacy = Privacy(6.0, CASES["dp_gd"].privacy.delta)
    found = audit("dp_gd", 400, sources(31), privacy)
    assert [each.delta for each in found] == [*DELTAS]
    assert next(each.promise for each in found if each.delta == privacy.delta) == pytest.approx(6.0, rel=1e-6)
    assert all(each.lower_bound <= each.promise for each in found)
    assert any(each.half_noise > each.promise for each in found)


# One case of each kind of bound or curve that is another under zero_out; `make audit` tries all.
NULL = (
    "adaptive_gd_numbers",
    "dp_gd",
    "dp_gd_last",
    "dp_gd_persons",
    "dp_gd_standardised",
    "localization",
    "noisy_mirror_descent",
    "noisy_sgd",
    "objective_perturbation",
    "profile",
)


@pytest.mark.slow
@pytest.mark.parametrize("name", NULL)
def test_so_it_is_against_the_null_record(name: str) -> None:
    assert told(name, "zero_out") == (False, True)


def is_caught(name: str, runs: int) -> bool:
    """Whether the case's attack finds more than is promised to a replaced record, epsilon 6, with a mutant in place."""
    case = CASES[name]
    assert isinstance(case, Case)
    _calibrate.cache_clear()
    try:
        quote = plan(case.method, case.problem, Privacy(6.0, case.privacy.delta))
        attack = seeded_attack(quote.method, quote.problem, quote.release.plan, *case.pair(), 31)
        return violates(attack, runs, beyond(quote.release.plan))
    finally:
        _calibrate.cache_clear()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "owner"), [("dp_gd", gaussian), ("dp_gd_random", random_iterate)])
def test_mutant_one_relation_priced_as_the_other_is_caught(
    name: str, owner: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a curve where a record is replaced: the transcript of a zero_out run does not keep a replace_one promise."""
    monkeypatch.setattr(owner, "sensitivity_factor", lambda _relation: 1.0)
    assert is_caught(name, 1000)


@pytest.mark.slow
def test_mutant_a_sampled_record_priced_as_null_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    curves, multiplier = PoissonGaussian.curves, PoissonGaussian.multiplier
    monkeypatch.setattr(PoissonGaussian, "curves", lambda self, z, *_: curves(self, z, "zero_out"))
    monkeypatch.setattr(PoissonGaussian, "multiplier", lambda self, m, *_: multiplier(self, m, "zero_out"))
    assert is_caught("noisy_sgd", 800)
