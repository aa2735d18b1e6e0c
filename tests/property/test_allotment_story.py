"""Allotments under arbitrary stories: what is reserved is there, whatever others do, and nobody is told of it."""

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
from accounting.records.events import Charged, Opened, Refunded
from accounting.records.ledger import advance
from tests.support.receipts import AT

RULES = (
    Filter.open("gdp_rdp", Privacy(3.0, 1e-6)),
    Filter.open("rdp", Privacy(1.0, 1e-6)),
    Filter.open("rdp", Privacy(3.0, 1e-6), 1e-7),
    Filter.open("gdp", Privacy(3.0, 1e-6)),
    Filter.open("pure", Privacy(0.5)),
)
# a job's share of the budget in per-mille, and what it is of that on each coordinate: real jobs weigh differently
SHARES = st.sampled_from([2, 40, 150, 290, 550, 900])
TILTS = st.lists(st.sampled_from([0.7, 1.0, 1.0, 1.3]), min_size=4, max_size=4)
ANALYSTS = st.sampled_from(["ada", "bob", "eve"])
OWN = Privacy(1e-3)


class Story(RuleBasedStateMachine):
    """Beside the ledger runs a plain list of each analyst's live charges."""

    queued: Bundle[Any] = Bundle("queued")

    @initialize(filter_=st.sampled_from(RULES), reserved=st.sets(st.sampled_from(["ada", "bob"])))
    def open(self, filter_: Filter, reserved: set[str]) -> None:
        self.rule, self.jobs = filter_, 0
        self.live: dict[str, dict[str, Cost]] = {"ada": {}, "bob": {}, "eve": {}}
        self.allotted = {who: Allotment(Part.of(filter_, 0.3), is_reserved=True) for who in reserved}
        self.state, _ = advance(None, Opened("d1", 100, filter_), AT)

    def accounts(self) -> dict[str, Account]:
        columns = {who: zip(self.rule.zero_cost, *jobs.values(), strict=True) for who, jobs in self.live.items()}
        return {who: Account(tuple(map(sum, c)), len(self.live[who])) for who, c in columns.items()}

    def stands(self, who: str) -> Standing:
        return standing(self.state, self.accounts(), self.allotted, who)

    def told(self, who: str) -> tuple[object, ...]:
        found = self.stands(who)
        return found.account, found.epsilon, found.spent_epsilon(), found.remaining_epsilon(), found.sees_parts_only

    def unchanged_for(self, acting: str) -> dict[str, tuple[object, ...]]:
        """To whom nothing may change by what this one spends, and what they are told."""
        reserved = {who for who, allotment in self.allotted.items() if allotment.is_reserved}
        hidden = self.live.keys() if acting in reserved else reserved
        return {who: self.told(who) for who in hidden if who != acting and reserved}

    @rule(who=ANALYSTS, share=st.sampled_from([0.05, 0.3, 0.5, 1.0]), reserved=st.booleans(), by_epsilon=st.booleans())
    def allot(self, who: str, share: float, reserved: bool, by_epsilon: bool) -> None:
        privacy = Privacy(max(share * self.rule.privacy.epsilon, 1e-3), self.rule.privacy.delta)
        part = largest_part(self.rule, privacy) if by_epsilon else Part.of(self.rule, share)
        then = self.allotted | {who: Allotment(part, reserved)}
        if not any(a.is_reserved for a in then.values()) or reservations_fit(self.state, self.accounts(), then):
            self.allotted = then  # and else it is refused

    @rule(who=ANALYSTS)
    def take_back(self, who: str) -> None:
        self.allotted.pop(who, None)

    @rule(target=queued, who=ANALYSTS, share=SHARES, tilts=TILTS, sampled=st.booleans())
    def charge(self, who: str, share: int, tilts: list[float], sampled: bool) -> Any:
        cost = tuple(math.ceil(t * share * tilt / 1000) for t, tilt in zip(self.rule.thresholds, tilts, strict=False))
        if self.rule.slack:
            cost = (*cost[:-1], min(cost[-1] * sampled, self.rule.most_slack))
        self.jobs += 1
        job = Charged(f"job{self.jobs}", cost, OWN)
        quiet, found = self.unchanged_for(who), self.stands(who)
        try:
            after = found.after(job)
        except BudgetExhausted:
            assert not (found.sees_parts_only and found.holds(cost)), "the own part alone decides"
            return multiple()
        assert found.holds(cost)
        try:
            self.state, _ = advance(self.state, job, AT)
        except BudgetExhausted:
            pytest.fail("a part admitted what the ledger does not")
        self.live[who][job.job] = cost
        assert {other: self.told(other) for other in quiet} == quiet
        assert (after.account, after.remaining_epsilon()) == (
            self.stands(who).account,
            self.stands(who).remaining_epsilon(),
        )
        return who, job.job

    @rule(job=consumes(queued))
    def refund(self, job: tuple[str, str]) -> None:
        who, name = job
        quiet = self.unchanged_for(who)
        self.state, _ = advance(self.state, Refunded(name, self.live[who].pop(name), self.state.whole), AT)
        assert {other: self.told(other) for other in quiet} == quiet

    @invariant()
    def what_is_reserved_and_spent_fits(self) -> None:
        """By sums of its own, on the coordinate of all parts and on the slack."""
        reserved = {who: allotment.part for who, allotment in self.allotted.items() if allotment.is_reserved}
        if not reserved:
            return
        whole, spent = Part.of(self.rule, 1.0), {who: account.spent for who, account in self.accounts().items()}
        main = self.rule.thresholds.index(whole.top)
        for place, top, tops in (
            (main, whole.top, {who: part.top for who, part in reserved.items()}),
            (-1, whole.slack, {who: part.slack for who, part in reserved.items()}),
        ):
            if place == main or self.rule.slack:
                assert all(spent[who][place] <= tops[who] for who in reserved)
                assert sum(tops.values()) + sum(spent[who][place] for who in spent if who not in reserved) <= top
        assert not self.state.whole

    @invariant()
    def what_remains_is_what_is_admitted(self) -> None:
        for who in self.live:
            found = self.stands(who)
            assert 0.0 <= found.remaining_epsilon() <= self.rule.privacy.epsilon
            assert 0.0 <= found.spent_epsilon() <= found.epsilon <= self.rule.privacy.epsilon


Story.TestCase.settings = settings(max_examples=150, stateful_step_count=25, deadline=None)
TestStory = pytest.mark.slow(Story.TestCase)
