"""`purse audit` for every method: the promise holds, and half the noise is seen.

Of cases that share every line and branch that they run, the cheapest are tried here; `make audit` tries all.
"""

from pathlib import Path
from types import ModuleType
from typing import get_args

import pytest

from accounting import Privacy
from accounting.mechanisms import PoissonGaussian, gaussian, random_iterate
from accounting.plan import Plan
from accounting.privacy import REPLACE_ONE, Relation
from solvers import plan
from solvers.audit import CASES, audit
from solvers.audit.attack import halved
from solvers.audit.bounds import DELTAS
from solvers.audit.cases import Case, ExactCase
from solvers.audit.findings import attacked
from solvers.methods import Method
from solvers.methods.defaults.little_signal import model_kind
from solvers.methods.standardised.adaptive_gd import AdaptiveGdRun
from solvers.statistics import AnyCounting
from tests.support.audit import beyond, case_attack, sources, violates
from tests.support.audit_cases import NULL, SHARED, TRIED
from tests.support.mutants import new_calibrations


def test_every_method_has_a_case() -> None:
    names = {str(member.__dataclass_fields__["name"].default) for member in get_args(Method)}
    names |= {str(member.__dataclass_fields__["name"].default) for member in get_args(AnyCounting)}
    assert names == {case.method.name for case in CASES.values()}, "add a Case to solvers/audit/cases.py"
    assert names <= set(CASES), "one case of each is named as its method"
    files = {file.stem for file in Path(__file__).parent.iterdir()}
    assert {other for others in SHARED.values() for other in others} <= (set(CASES) - set(SHARED)) | files


def test_every_case_has_a_plan_for_its_own_guarantee() -> None:
    """`purse audit all` must not stop at a case with too few records, as other tests use other guarantees."""
    for case in CASES.values():
        if isinstance(case, Case):
            attacked(case, case.privacy)


def test_the_case_of_sparse_columns_has_small_coefficients() -> None:
    case = CASES["adaptive_gd_sparse"]
    assert isinstance(case, Case)
    for epsilon in (case.privacy.epsilon, TRIED["adaptive_gd_sparse"][0]):
        quote = plan(case.method, case.problem, Privacy(epsilon, case.privacy.delta))
        assert isinstance(quote.method, AdaptiveGdRun)
        noise_multiplier = quote.release.plan.query("gradient").noise_multiplier
        assert model_kind(case.problem, quote.method.signal(case.problem, noise_multiplier)) == "small"


@pytest.mark.parametrize("name", sorted(set(CASES) - set(SHARED)))
def test_the_guarantee_is_kept_and_half_the_noise_is_caught(name: str) -> None:
    assert violations(name) == (False, True)


def violations(name: str, relation: Relation = REPLACE_ONE) -> tuple[bool, bool]:
    """Return whether the case exceeds its guarantee, and whether it does with half the noise."""
    case, (epsilon, runs) = CASES[name], TRIED[name]
    privacy = Privacy(epsilon, case.privacy.delta)
    if isinstance(case, ExactCase):
        (exactly,) = audit(name, runs, privacy=privacy, relation=relation)
        return exactly.lower_bound > exactly.promise, exactly.half_noise > exactly.promise
    plan, attack = attacked(case, privacy, relation)

    def exceeds(noisy: Plan) -> bool:
        noise = sources(31)
        return violates(lambda count: attack(noisy, count, noise), runs, beyond(plan))

    return exceeds(plan), exceeds(halved(plan))


def test_the_printed_figures_of_a_case_are_those_of_its_plan_and_of_half_its_noise() -> None:
    """`purse audit` states guarantee, lower bound and the bound of half the noise at every delta."""
    privacy = Privacy(6.0, CASES["dp_gd"].privacy.delta)
    findings = audit("dp_gd", 400, sources(31), privacy)
    assert [each.delta for each in findings] == [*DELTAS]
    assert next(each.promise for each in findings if each.delta == privacy.delta) == pytest.approx(6.0, rel=1e-6)
    assert all(each.lower_bound <= each.promise for each in findings)
    assert any(each.half_noise > each.promise for each in findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", NULL)
def test_the_guarantee_is_kept_and_half_the_noise_is_caught_under_zero_out(name: str) -> None:
    assert violations(name, "zero_out") == (False, True)


def is_caught(name: str, runs: int) -> bool:
    """Return whether the attack on a mutant exceeds the guarantee for a replaced record at epsilon 6."""
    with new_calibrations():
        plan, attack = case_attack(name, 31, Privacy(6.0, CASES[name].privacy.delta))
    return violates(attack, runs, beyond(plan))


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
