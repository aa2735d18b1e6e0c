"""Allotments under arbitrary sequences of charges: reservations hold, and other analysts cannot see them."""

import math
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, multiple, rule

from accounting import Privacy
from accounting.charges import Cost
from accounting.errors import BudgetExhausted
from accounting.filter import Filter
from accounting.records.allotments import Account, Allotment, Part, Standing, largest_part, reservations_fit, standing
from accounting.records.events import Opened, Refunded
from accounting.records.ledger import advance
from tests.support.chains import AT, charge_of

RULES = (
    Filter.open("gdp_rdp", Privacy(3.0, 1e-6)),
    Filter.open("rdp", Privacy(1.0, 1e-6)),
    Filter.open("rdp", Privacy(3.0, 1e-6), 1e-7),
    Filter.open("gdp", Privacy(3.0, 1e-6)),
    Filter.open("pure", Privacy(0.5)),
)
# The share of the budget that a job uses, in per mille, and its factor in each coordinate of the cost.
SHARES = st.sampled_from([2, 40, 150, 290, 550, 900])
TILTS = st.lists(st.sampled_from([0.7, 1.0, 1.0, 1.3]), min_size=4, max_size=4)
ANALYSTS = st.sampled_from(["ada", "bob", "eve"])
OWN = Privacy(1e-3)


class Story(RuleBasedStateMachine):
    """State machine that compares the ledger with a plain list of each analyst's live charges."""

    queued: Bundle[Any] = Bundle("queued")

    @initialize(filter_=st.sampled_from(RULES), reserved=st.sets(st.sampled_from(["ada", "bob"])))
    def open(self, filter_: Filter, reserved: set[str]) -> None:
        self.rule, self.jobs = filter_, 0
        self.live: dict[str, dict[str, Cost]] = {"ada": {}, "bob": {}, "eve": {}}
        self.allotted = {analyst: Allotment(Part.of(filter_, 0.3), is_reserved=True) for analyst in reserved}
        self.state, _ = advance(None, Opened("d1", 100, filter_), AT)

    def accounts(self) -> dict[str, Account]:
        columns = {
            analyst: zip(self.rule.zero_cost, *jobs.values(), strict=True) for analyst, jobs in self.live.items()
        }
        return {analyst: Account(tuple(map(sum, c)), len(self.live[analyst])) for analyst, c in columns.items()}

    def stands(self, analyst: str) -> Standing:
        return standing(self.state, self.accounts(), self.allotted, analyst)

    def report(self, analyst: str) -> tuple[object, ...]:
        account_standing = self.stands(analyst)
        return (
            account_standing.account,
            account_standing.epsilon,
            account_standing.spent_epsilon(),
            account_standing.remaining_epsilon(),
            account_standing.sees_parts_only,
        )

    def unchanged_for(self, acting: str) -> dict[str, tuple[object, ...]]:
        """Return the reports to the analysts for whom a charge of `acting` must not be visible."""
        reserved = {analyst for analyst, allotment in self.allotted.items() if allotment.is_reserved}
        hidden = self.live.keys() if acting in reserved else reserved
        return {analyst: self.report(analyst) for analyst in hidden if analyst != acting and reserved}

    @rule(
        analyst=ANALYSTS, share=st.sampled_from([0.05, 0.3, 0.5, 1.0]), reserved=st.booleans(), by_epsilon=st.booleans()
    )
    def allot(self, analyst: str, share: float, reserved: bool, by_epsilon: bool) -> None:
        privacy = Privacy(max(share * self.rule.privacy.epsilon, 1e-3), self.rule.privacy.delta)
        part = largest_part(self.rule, privacy) if by_epsilon else Part.of(self.rule, share)
        then = self.allotted | {analyst: Allotment(part, reserved)}
        if not any(a.is_reserved for a in then.values()) or reservations_fit(self.state, self.accounts(), then):
            self.allotted = then  # otherwise the allotment is refused

    @rule(analyst=ANALYSTS)
    def take_back(self, analyst: str) -> None:
        self.allotted.pop(analyst, None)

    @rule(target=queued, analyst=ANALYSTS, share=SHARES, tilts=TILTS, sampled=st.booleans())
    def charge(self, analyst: str, share: int, tilts: list[float], sampled: bool) -> Any:
        cost = tuple(math.ceil(t * share * tilt / 1000) for t, tilt in zip(self.rule.thresholds, tilts, strict=False))
        if self.rule.slack:
            cost = (*cost[:-1], min(cost[-1] * sampled, self.rule.most_slack))
        self.jobs += 1
        job = charge_of(f"job{self.jobs}", cost, OWN)
        hidden_before, account_standing = self.unchanged_for(analyst), self.stands(analyst)
        try:
            standing_after = account_standing.plus(job)
        except BudgetExhausted:
            assert not (account_standing.sees_parts_only and account_standing.holds(cost)), (
                "an analyst's own part alone decides"
            )
            return multiple()
        assert account_standing.holds(cost)
        try:
            self.state, _ = advance(self.state, job, AT)
        except BudgetExhausted:
            pytest.fail("a part admitted a charge that the ledger refuses")
        self.live[analyst][job.job] = cost
        assert {other: self.report(other) for other in hidden_before} == hidden_before
        assert (standing_after.account, standing_after.remaining_epsilon()) == (
            self.stands(analyst).account,
            self.stands(analyst).remaining_epsilon(),
        )
        return analyst, job.job

    @rule(job=consumes(queued))
    def refund(self, job: tuple[str, str]) -> None:
        analyst, name = job
        hidden_before = self.unchanged_for(analyst)
        self.state, _ = advance(self.state, Refunded(name, self.live[analyst].pop(name), self.state.whole), AT)
        assert {other: self.report(other) for other in hidden_before} == hidden_before

    @invariant()
    def what_is_reserved_and_spent_fits(self) -> None:
        """By sums of its own, on the coordinate of all parts and on the slack."""
        reserved = {analyst: allotment.part for analyst, allotment in self.allotted.items() if allotment.is_reserved}
        if not reserved:
            return
        whole, spent = Part.of(self.rule, 1.0), {analyst: account.spent for analyst, account in self.accounts().items()}
        main = self.rule.thresholds.index(whole.top)
        for place, top, tops in (
            (main, whole.top, {analyst: part.top for analyst, part in reserved.items()}),
            (-1, whole.slack, {analyst: part.slack for analyst, part in reserved.items()}),
        ):
            if place == main or self.rule.slack:
                assert all(spent[analyst][place] <= tops[analyst] for analyst in reserved)
                assert (
                    sum(tops.values()) + sum(spent[analyst][place] for analyst in spent if analyst not in reserved)
                    <= top
                )
        assert not self.state.whole

    @invariant()
    def what_remains_is_what_is_admitted(self) -> None:
        for analyst in self.live:
            account_standing = self.stands(analyst)
            assert 0.0 <= account_standing.remaining_epsilon() <= self.rule.privacy.epsilon
            assert 0.0 <= account_standing.spent_epsilon() <= account_standing.epsilon <= self.rule.privacy.epsilon


Story.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestStory = pytest.mark.slow(Story.TestCase)
