"""Parts of a filter: the costs they hold, their guarantee, and the standing of an analyst with an allotment."""

import math
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accounting import Privacy
from accounting.charges import UNIT, Cost
from accounting.errors import BudgetExhausted
from accounting.filter import Filter
from accounting.records.allotments import Account, Allotment, Part, Standing, largest_part, reservations_fit, standing
from accounting.records.events import Opened
from accounting.records.ledger import LedgerState, advance
from tests.support.chains import charge_of

RULES = {
    "gdp_rdp": Filter.open("gdp_rdp", Privacy(3.0, 1e-6)),
    "rdp": Filter.open("rdp", Privacy(3.0, 1e-6)),
    "rdp with a slack": Filter.open("rdp", Privacy(3.0, 1e-6), 1e-7),
    "gdp": Filter.open("gdp", Privacy(1.0, 1e-6)),
    "pure": Filter.open("pure", Privacy(0.5)),
}
OWN = Privacy(0.1)


def opened(rule: Filter) -> LedgerState:
    return advance(None, Opened("d1", 100, rule), "t")[0]


def gaussian(rule: Filter, mu_squared: float) -> Cost:
    """What a Gaussian job of this mu^2 charges (of this epsilon, under `pure`)."""
    head = () if rule.kind == "rdp" else (mu_squared,)
    units = [math.ceil(value * UNIT) for value in (*head, *(a * mu_squared / 2 for a in rule.orders))]
    return (*units, *((0,) if rule.slack else ()))


@pytest.mark.parametrize("name", RULES)
class TestAPart:
    def test_of_the_whole_admits_all_gaussian_jobs_that_the_filter_admits_alone(self, name: str) -> None:
        """Its coordinate is the one with the most room for them."""
        rule = RULES[name]
        whole = Part.of(rule, 1.0)
        assert whole.remaining_epsilon(rule.zero_cost) == rule.remaining_epsilon(rule.zero_cost)
        assert whole.epsilon(rule.privacy.delta) <= rule.privacy.epsilon

    def test_of_a_half_admits_half_as_many(self, name: str) -> None:
        rule = RULES[name]
        cost = gaussian(rule, 1e-4)

        def admitted(part: Part) -> int:
            low, high = 0, 10**9
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if part.holds(tuple(middle * c for c in cost)) else (low, middle)
            return low

        whole, half = admitted(Part.of(rule, 1.0)), admitted(Part.of(rule, 0.5))
        assert abs(half - whole / 2) <= 1
        assert whole > 100

    def test_guarantees_the_cost_of_its_jobs_and_more_as_it_grows(self, name: str) -> None:
        rule = RULES[name]
        epsilons = [Part.of(rule, share).epsilon(rule.privacy.delta) for share in (0.0, 0.01, 0.1, 0.5, 0.9, 1.0)]
        assert epsilons == sorted(epsilons)
        assert epsilons[-1] <= rule.privacy.epsilon
        for share, epsilon in zip((0.1, 0.5), (epsilons[2], epsilons[3]), strict=True):
            assert Part.of(rule, share).remaining_epsilon(rule.zero_cost) <= epsilon

    @pytest.mark.parametrize("share", [0.3, 0.6, 0.99])
    def test_is_recovered_from_its_guarantee(self, name: str, share: float) -> None:
        rule = RULES[name]
        epsilon, delta = Part.of(rule, share).epsilon(rule.privacy.delta), rule.privacy.delta
        assert epsilon < rule.privacy.epsilon
        part = largest_part(rule, Privacy(epsilon, delta))
        assert part.epsilon(delta) <= epsilon
        assert share - 1e-6 <= part.share <= share + 1e-6

    def test_of_more_than_the_budget_is_the_whole(self, name: str) -> None:
        rule = RULES[name]
        assert largest_part(rule, Privacy(100.0, rule.privacy.delta)) == Part.of(rule, 1.0)
        assert largest_part(rule, rule.privacy) == Part.of(rule, 1.0)


@pytest.mark.parametrize("name", ["gdp_rdp", "rdp with a slack"])
def test_a_part_has_its_part_of_the_slack(name: str) -> None:
    rule = RULES[name]
    part = Part.of(rule, 0.25)
    small_cost = gaussian(rule, 1e-6)[:-1]
    assert part.slack == rule.thresholds[-1] // 4
    assert part.holds((*small_cost, part.slack))
    assert not part.holds((*small_cost, part.slack + 1))


@pytest.mark.slow
@settings(max_examples=40)
@given(shares=st.lists(st.floats(1e-6, 1.0), min_size=1, max_size=30), name=st.sampled_from(sorted(RULES)))
def test_shares_that_add_up_to_the_whole_fit_it(shares: list[float], name: str) -> None:
    """Exactly: rounded down, no part takes another one's unit."""
    rule = RULES[name]
    assume(sum(map(Fraction, shares)) <= 1)
    allotted = {str(i): Allotment(Part.of(rule, share), True) for i, share in enumerate(shares)}
    assert reservations_fit(opened(rule), {}, allotted)
    tops = [allotment.part.top for allotment in allotted.values()]
    assert not reservations_fit(
        opened(rule), {}, allotted | {"more": Allotment(Part(rule, Part.of(rule, 1.0).top - sum(tops) + 1, 0), True)}
    )


def test_halves_that_fit_on_different_coordinates_are_no_reservation() -> None:
    """Control: two costs that each fit half the budget on one coordinate exceed it together on every coordinate."""
    rule = RULES["rdp"]
    first, second = rule.thresholds
    ada, bob = (first // 2, second * 9 // 10), (first * 9 // 10, second // 2)
    assert ada[0] <= first // 2
    assert bob[1] <= second // 2
    assert not rule.admits(ada, bob)


def test_small_epsilons_fit_where_there_is_mu_squared_and_not_on_orders_of_a_large_budget() -> None:
    assert largest_part(RULES["gdp_rdp"], Privacy(0.1, 1e-6)).share > 1e-3
    assert largest_part(RULES["rdp"], Privacy(0.1, 1e-6)).top == 0


class TestTheStandingOfAnAnalyst:
    RULE = RULES["gdp_rdp"]
    COST = gaussian(RULE, 1e-3)
    SPENT = Account(tuple(3 * c for c in COST), 3)

    def _standing(self, analyst: str, **allotted: Allotment) -> Standing:
        """Return the analyst's standing after Ada and Bob have each spent the same."""
        state = opened(self.RULE)
        for number in range(6):
            state, _ = advance(state, charge_of(f"job{number}", self.COST, OWN), "t")
        return standing(state, {"ada": self.SPENT, "bob": self.SPENT}, allotted, analyst)

    def _part(self, share: float, reserved: bool = True) -> Allotment:
        return Allotment(Part.of(self.RULE, share), reserved)

    def test_without_allotments_is_the_whole_budget(self) -> None:
        result = self._standing("ada")
        assert result == Standing(result.state)
        assert (result.account.charges, result.epsilon) == (6, 3.0)

    def test_with_a_cap_is_the_whole_budget_and_the_cap(self) -> None:
        result = self._standing("ada", ada=self._part(0.02, reserved=False))
        assert (result.account.charges, result.epsilon) == (6, 3.0)
        assert result.remaining_epsilon() == Part.of(self.RULE, 0.02).remaining_epsilon(self.SPENT.spent)
        assert result.remaining_epsilon() < self._standing("bob").remaining_epsilon()
        assert self._standing("bob", ada=self._part(0.02, reserved=False)) == self._standing("bob")

    def test_with_a_reservation_is_the_reservation_alone(self) -> None:
        result = self._standing("ada", ada=self._part(0.02), bob=self._part(0.5))
        assert result.account == self.SPENT
        assert result.epsilon == Part.of(self.RULE, 0.02).epsilon(1e-6)
        assert result.spent_epsilon() == min(result.epsilon, self.RULE.spent_epsilon(self.SPENT.spent))
        assert not result.holds(gaussian(self.RULE, 0.01))

    def test_without_a_reservation_is_the_unreserved_part(self) -> None:
        for analyst in ("bob", "eve"):
            result = self._standing(analyst, ada=self._part(0.25))
            assert result.account == self.SPENT
            assert result.parts[0][0].share == pytest.approx(0.75)
        capped = self._standing("bob", ada=self._part(0.25), bob=self._part(0.01, reserved=False))
        assert [part.share for part, _ in capped.parts] == pytest.approx([0.75, 0.01])
        assert not capped.holds(gaussian(self.RULE, 0.01))

    def test_reservations_cover_what_their_analysts_have_spent(self) -> None:
        """Otherwise a refund would be visible in the remaining budget of other analysts."""
        used, accounts = Part.of(self.RULE, 1.0).used(self.SPENT.spent), {"ada": self.SPENT}
        assert reservations_fit(opened(self.RULE), accounts, {"ada": self._part(used * 1.001)})
        assert not reservations_fit(opened(self.RULE), accounts, {"ada": self._part(used * 0.999)})
        assert not reservations_fit(opened(self.RULE), accounts, {"bob": self._part(1 - used * 0.999)})

    def test_never_admits_a_job_by_the_rule_of_the_empty_ledger(self) -> None:
        """Without allotments a first job within the budget may charge all of it, which would use up reservations."""
        large = gaussian(self.RULE, 10.0)
        alone = Standing(opened(self.RULE))
        assert alone.plus(charge_of("job", large, OWN)).state.whole
        for analyst in ("ada", "bob"):
            result = standing(opened(self.RULE), {}, {"ada": self._part(0.5)}, analyst)
            with pytest.raises(BudgetExhausted):
                result.plus(charge_of("job", large, OWN))

    def test_reserves_nothing_after_a_charge_of_the_whole_budget(self) -> None:
        state, _ = advance(opened(self.RULE), charge_of("job", gaussian(self.RULE, 10.0), OWN), "t")
        assert state.whole
        assert not reservations_fit(state, {}, {"ada": self._part(1e-6)})
