"""The ledger under arbitrary stories: exact sums, no overspending, exact refunds, an unforgeable past."""

import json
from dataclasses import dataclass, replace
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    precondition,
    rule,
)

from accounting import Privacy
from accounting.charges import UNAFFORDABLE_UNITS
from accounting.errors import BudgetExhausted, LedgerFrozen, LedgerInvalid
from accounting.filter import UNIT, Cost, Filter
from accounting.records.chain import Entry, Head
from accounting.records.documents import canonical, parse
from accounting.records.events import (
    Cancelled,
    Emptied,
    External,
    Failed,
    Frozen,
    LedgerEvent,
    Opened,
    Promised,
    Refunded,
    Released,
    Reserved,
    RolledBack,
    SessionPolicy,
    SessionRule,
    Settled,
    Started,
)
from accounting.records.ledger import LedgerState, advance, remaining_epsilon, spent_epsilon
from accounting.records.replay import Replay, replay
from tests.support.chains import charge_of, ledger_of
from tests.support.json_values import json_values

AT = "2026-01-02T03:04:05Z"
MODEL = "ab" * 32
RULES = (
    Filter.open("rdp", Privacy(1.0, 1e-6)),
    Filter.open("rdp", Privacy(0.1, 1e-12)),
    Filter.open("rdp", Privacy(1e-3, 1e-2)),
    Filter.open("gdp", Privacy(3.0, 1e-6)),
    Filter.open("gdp_rdp", Privacy(2.0, 1e-6)),
    Filter.open("pure", Privacy(0.5)),
)
# per-mille of each threshold, drawn separately: real jobs weigh differently on each order
SHARES = st.lists(st.integers(1, 1400), min_size=4, max_size=4) | st.sampled_from([[1400] * 4, [300] * 4])
GUARANTEES = st.just(Privacy(1e-3)) | st.builds(Privacy, st.floats(1e-3, 4.0), st.sampled_from([0.0, 1e-6, 1e-2]))


def cost_of(filter_: Filter, shares: list[int]) -> Cost:
    cost = tuple(max(1, t * s // 1000) for t, s in zip(filter_.thresholds, shares, strict=False))
    return (*cost[:-1], min(cost[-1], filter_.most_slack)) if filter_.slack else cost


def total(filter_: Filter, costs: list[Cost]) -> Cost:
    return tuple(sum(column) for column in zip(*costs, strict=True)) if costs else filter_.zero_cost


def is_within(filter_: Filter, spent: Cost) -> bool:
    """Return whether the cost is below some threshold and the slack."""
    over = [s > t for s, t in zip(spent, filter_.thresholds, strict=True)]
    return not (all(over[:-1]) or over[-1]) if filter_.slack else not all(over)


@dataclass(frozen=True)
class Job:
    name: str
    cost: Cost
    whole: bool


@dataclass(frozen=True)
class Session:
    """A session that has not ended: its charge, the number of uses of its one event, and the rule at its opening."""

    name: str
    cost: Cost
    count: int
    rule: SessionPolicy

    def priced(self, uses: int) -> Cost:
        """Return the price of this number of uses: a part of the cost, rounded up."""
        return tuple(-(-c * uses // self.count) for c in self.cost)


def is_used(story: "Story") -> bool:
    """Return whether several charges are live: what else may happen before them has little to act on."""
    return len(story.live) > 1 or (story.state.whole and not story.state.frozen)


class Story(RuleBasedStateMachine):
    """Jobs and sessions come and end, stewards freeze, raise the budget and charge outside releases, entries are lost.

    All of this happens in any order. A plain list of live charges is kept beside the ledger.
    """

    queued = Bundle("queued")
    started = Bundle("started")
    sessions = Bundle("sessions")

    @initialize(filter_=st.sampled_from(RULES))
    def open(self, filter_: Filter) -> None:
        self.live: dict[str, Cost] = {}
        self.names = 0
        self.over: set[str] = set()  # open when entries were lost
        self.rule: SessionPolicy = "refund"
        self.undivided = False  # a session that took the whole budget is live
        self.state, entry = advance(None, Opened("d1", 100, filter_), AT)
        self.entries = [entry]

    def step(self, event: LedgerEvent) -> None:
        self.state, entry = advance(self.state, event, AT)
        self.entries.append(entry)

    def is_over(self, job: Job, event: LedgerEvent) -> bool:
        """Return whether the job was open when entries were lost. Then no chain may continue with the job."""
        if job.name in self.over:
            with pytest.raises((LedgerInvalid, LedgerFrozen)):
                replay([*self.entries, advance(self.state, event, AT)[1]])
        return job.name in self.over

    @rule(target=queued, shares=SHARES, guarantee=GUARANTEES)
    def charge(self, shares: list[int], guarantee: Privacy) -> object:
        filter_, state_before = self.state.filter, self.state
        cost = cost_of(filter_, shares)
        self.names += 1
        name = f"job{self.names}"
        if state_before.frozen:
            with pytest.raises(LedgerFrozen):
                advance(state_before, charge_of(name, cost, guarantee), AT)
            return multiple()
        spent_after = total(filter_, [*self.live.values(), cost])
        fits = is_within(filter_, spent_after) and not state_before.whole
        alone = guarantee.epsilon <= filter_.privacy.epsilon and guarantee.delta <= filter_.privacy.delta
        if not fits and not (alone and not self.live and not state_before.rolled_back):
            with pytest.raises(BudgetExhausted):
                advance(state_before, charge_of(name, cost, guarantee), AT)
            return multiple()
        self.step(charge_of(name, cost, guarantee))
        self.live[name] = cost
        assert self.state.whole == (not fits)
        assert spent_epsilon(self.state) >= spent_epsilon(state_before)
        assert remaining_epsilon(self.state) <= remaining_epsilon(state_before)
        return Job(name, cost, self.state.whole)

    @rule(target=started, job=consumes(queued))
    def start(self, job: Job) -> object:
        if self.is_over(job, Started(job.name, 1)):
            return multiple()
        if self.state.frozen:
            with pytest.raises(LedgerFrozen):
                advance(self.state, Started(job.name, 1), AT)
            return multiple()  # it waits, charged
        self.step(Started(job.name, 1))
        return job

    @rule(job=consumes(queued))
    def refund(self, job: Job) -> None:
        whole = self.state.whole
        if self.is_over(job, Refunded(job.name, job.cost, whole)):
            return
        assert job.whole >= whole, "another charge beside it, or a larger promise, makes it one like others"
        with pytest.raises(LedgerInvalid):
            advance(self.state, Refunded(job.name, job.cost, not whole), AT)
        self.step(Refunded(job.name, job.cost, whole))
        del self.live[job.name]

    @rule(job=consumes(started), how=st.sampled_from(["released", "failed", "cancelled"]))
    def end(self, job: Job, how: str) -> None:
        if self.is_over(job, Failed(job.name, 1)):
            return
        if how == "released":
            self.step(Released(job.name, 1, MODEL))
        else:
            self.step((Failed if how == "failed" else Cancelled)(job.name, 1))

    @rule(target=sessions, shares=SHARES, guarantee=st.none() | GUARANTEES, count=st.integers(1, 5))
    def reserve(self, shares: list[int], guarantee: Privacy | None, count: int) -> object:
        filter_, state_before = self.state.filter, self.state
        cost = cost_of(filter_, shares)
        cost = (*cost[:-1], 0) if filter_.slack else cost
        self.names += 1
        name = f"session{self.names}"
        planned: list[dict[str, Any]] = [{"event": {}, "count": count}]
        event = Reserved(name, "d1", "ada", planned, cost, guarantee, AT)
        fits = is_within(filter_, total(filter_, [*self.live.values(), cost])) and not state_before.whole
        budget = filter_.privacy
        alone = guarantee and guarantee.epsilon <= budget.epsilon and guarantee.delta <= budget.delta
        if state_before.frozen or not (fits or (alone and not self.live and not state_before.rolled_back)):
            with pytest.raises(LedgerFrozen if state_before.frozen else BudgetExhausted):
                advance(state_before, event, AT)
            return multiple()
        if self.rule == "refused":
            with pytest.raises(LedgerInvalid):
                replay([*self.entries, advance(state_before, event, AT)[1]])
            return multiple()
        self.step(event)
        self.live[name] = cost
        assert self.state.whole == (not fits)
        self.undivided |= not fits
        return Session(name, cost, count, self.rule)

    @precondition(is_used)
    @rule(rule=st.sampled_from(get_args(SessionPolicy)))
    def change_the_rule_for_sessions(self, rule: SessionPolicy) -> None:
        self.step(SessionRule("d1", rule, "eve"))
        self.rule = rule

    @rule(session=consumes(sessions), uses=st.integers(0, 5))
    def close(self, session: Session, uses: int) -> None:
        """Close a session, also under a freeze. A whole budget, or a ledger that lost entries, has no refund."""
        state_before, recorded = self.state, min(uses, session.count)
        used_cost = session.priced(recorded)
        refund = tuple(c - unit for c, unit in zip(session.cost, used_cost, strict=True))
        end = Settled(session.name, [recorded], refund, state_before.whole, "closed")
        if any(refund) and (state_before.rolled_back or (self.undivided and recorded)):
            with pytest.raises(LedgerInvalid):
                advance(state_before, end, AT)
            end = replace(end, refund=state_before.filter.zero_cost)
        if any(end.refund) and session.rule == "no_refund":
            with pytest.raises(LedgerInvalid):
                replay([*self.entries, advance(state_before, end, AT)[1]])
            end = replace(end, refund=state_before.filter.zero_cost)
        for stolen in self.stolen(session, end):
            with pytest.raises(LedgerInvalid):
                replay([*self.entries, advance(state_before, stolen, AT)[1]])
        self.step(end)
        if end.frees_charge:
            del self.live[session.name]
            self.undivided = False
            assert not self.state.whole
        else:
            self.live[session.name] = tuple(c - r for c, r in zip(session.cost, end.refund, strict=True))
            assert self.state.whole == state_before.whole
        with pytest.raises(LedgerInvalid):
            replay([*self.entries, advance(self.state, replace(end, refund=state_before.filter.zero_cost), AT)[1]])

    def stolen(self, session: Session, end: Settled) -> list[Settled]:
        """Return invalid ends of this session: too many uses, too large a refund, a refund at expiry."""
        tampered = [
            replace(end, recorded=[session.count + 1]),
            replace(end, recorded=[]),
            replace(end, session="ghost"),
        ]
        tampered.append(replace(end, whole=not end.whole))
        if any(end.refund):
            tampered.append(replace(end, reason="expired"))
        if end.recorded[0]:
            tampered.append(replace(end, refund=session.cost))
        if end.frees_charge:
            tampered.append(replace(end, refund=(end.refund[0] - 1, *end.refund[1:])))
        return tampered

    @rule(session=consumes(sessions), uses=st.integers(0, 5))
    def expire(self, session: Session, uses: int) -> None:
        zero = self.state.filter.zero_cost
        spent = self.state.spent
        self.step(Settled(session.name, [min(uses, session.count)], zero, self.state.whole, "expired"))
        assert self.state.spent == spent

    @precondition(lambda self: self.state.frozen or is_used(self))
    @rule()
    def freeze(self) -> None:
        """Or lift it."""
        self.step(Frozen(not self.state.frozen, "eve"))

    @precondition(lambda self: is_used(self) and not self.state.rolled_back)
    @rule()
    def lose_entries(self) -> None:
        state_before = self.state
        self.step(RolledBack("disk lost", Head(state_before.sequence + 3, "ab" * 32)))
        assert (self.state.frozen, self.state.is_charged, self.state.spent) == (True, True, state_before.spent)
        self.over |= {f"job{number}" for number in range(self.names + 1)}
        with pytest.raises(LedgerInvalid):
            advance(self.state, Emptied("d1", True, "eve"), AT)

    @precondition(is_used)
    @rule(epsilon=st.floats(1.001, 2.0), delta=st.sampled_from([1.0, 2.0]))
    def promise_more(self, epsilon: float, delta: float) -> None:
        state_before, now = self.state, self.state.filter.privacy
        larger = Privacy(min(now.epsilon * epsilon, 100.0), min(now.delta * delta, 1e-2))
        if larger == now:
            return  # the largest budget is reached
        self.step(Promised(state_before.filter.raised(larger), "eve"))
        self.undivided &= not is_within(self.state.filter, self.state.spent)
        assert self.state.spent == state_before.spent
        if larger.delta == now.delta:  # otherwise epsilon is at another delta
            assert remaining_epsilon(self.state) >= remaining_epsilon(state_before)

    @precondition(is_used)
    @rule(shares=SHARES)
    def charge_what_ran_elsewhere(self, shares: list[int]) -> None:
        rule_, state_before = self.state.filter, self.state
        cost = cost_of(rule_, shares)
        spent_after = total(rule_, [*self.live.values(), cost])
        fits = is_within(rule_, spent_after) and not state_before.whole
        self.names += 1
        name = f"report{self.names}"
        with pytest.raises(LedgerInvalid if fits else BudgetExhausted):
            advance(state_before, External("d1", name, {}, cost, fits, "eve"), AT)
        self.step(External("d1", name, {}, cost, not fits, "eve"))
        self.live[name] = cost
        assert self.state.is_exceeded == (not fits)
        assert self.state.frozen == (state_before.frozen or not fits)

    @precondition(is_used)
    @rule(shares=SHARES, whole=st.booleans())
    def refund_what_is_not_there(self, shares: list[int], whole: bool) -> None:
        """A refund larger than what is live in any order is refused, and so is any in an empty ledger."""
        cost = cost_of(self.state.filter, shares)
        larger = any(c > s for c, s in zip(cost, self.state.spent, strict=True))
        if larger or not self.live:
            with pytest.raises(LedgerInvalid):
                advance(self.state, Refunded("ghost", cost, whole), AT)

    @invariant()
    def spent_is_the_exact_sum_of_the_live_charges(self) -> None:
        assert self.state.spent == total(self.state.filter, list(self.live.values()))
        assert self.state.charges == len(self.live)
        assert self.state.undivided == self.undivided

    @invariant()
    def never_beyond_every_threshold(self) -> None:
        filter_ = self.state.filter
        within = is_within(filter_, self.state.spent)
        assert within or self.state.is_exceeded or (self.state.whole and len(self.live) == 1)
        assert spent_epsilon(self.state) >= 0
        assert self.state.is_exceeded or spent_epsilon(self.state) <= filter_.privacy.epsilon
        assert 0 <= remaining_epsilon(self.state) <= filter_.privacy.epsilon

    @invariant()
    def the_past_replays_to_the_present(self) -> None:
        assert replay(self.entries) == self.state
        assert LedgerState.from_json(self.state.to_json()) == self.state

    @invariant()
    def a_checkpoint_and_the_entries_after_it_replay_to_the_present(self) -> None:
        whole = Replay()
        whole.follow(self.entries)
        for cut in {1, len(self.entries) // 2, len(self.entries) - 1} - {0}:
            replayed = Replay()
            replayed.follow(self.entries[:cut])
            document = replayed.to_json()
            assert json.loads(json.dumps(document)) == document, "a stored checkpoint equals the document of its replay"
            resumed = Replay.from_json(parse(canonical(document)))
            resumed.follow(self.entries[cut:])
            assert (resumed.state, resumed.to_json()) == (self.state, whole.to_json())


Story.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestStory = pytest.mark.slow(Story.TestCase)


@pytest.mark.slow
@given(
    filter_=st.sampled_from(RULES),
    shares=st.lists(st.lists(st.integers(1, 120), min_size=4, max_size=4), min_size=1, max_size=8),
    data=st.data(),
)
@settings(max_examples=60, deadline=None)
def test_the_order_of_charges_does_not_matter(filter_: Filter, shares: list[list[int]], data: st.DataObject) -> None:
    """Charges that all fit have the same sums, spent epsilon and remaining epsilon in every order."""
    jobs = [(f"job{i}", cost_of(filter_, s)) for i, s in enumerate(shares)]

    def play(order: list[tuple[str, Cost]]) -> LedgerState:
        return ledger_of(Opened("d1", 100, filter_), *(charge_of(name, cost, Privacy(1e-3)) for name, cost in order))[0]

    forwards, permuted = play(jobs), play(data.draw(st.permutations(jobs)))
    assert replace(forwards, head="") == replace(permuted, head="")
    assert (spent_epsilon(forwards), remaining_epsilon(forwards)) == (
        spent_epsilon(permuted),
        remaining_epsilon(permuted),
    )


def chain() -> list[Entry]:
    _, entries = ledger_of(
        Opened("d1", 100, RULES[0]),
        charge_of("a", (UNIT // 100, UNIT // 100), Privacy(0.1, 1e-6)),
        charge_of("b", (UNIT // 50, UNIT // 40), Privacy(0.1, 1e-6)),
        Started("a", 1),
        Refunded("b", (UNIT // 50, UNIT // 40), False),
        Released("a", 1, MODEL),
    )
    return entries


JSON = json_values()


@pytest.mark.slow
@given(at=st.integers(0, 5), data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_tampering_with_any_field_of_any_entry_breaks_the_chain(at: int, data: st.DataObject) -> None:
    entries = chain()
    entry = entries[at]
    change: dict[str, Any]
    field = data.draw(st.sampled_from(["sequence", "kind", "previous_hash", "hash", "body", "in the body"]))
    if field == "in the body":
        key = data.draw(st.sampled_from(sorted(entry.body)) | st.text())
        value = data.draw(JSON)
        change = {"body": entry.body | {key: value}}
        if key in entry.body and entry.body[key] == value:
            return
    elif field == "body":
        change = {"body": data.draw(st.dictionaries(st.text(), JSON, max_size=3))}
    elif field == "sequence":
        change = {"sequence": data.draw(st.integers().filter(lambda n: n != entry.sequence))}
    else:
        change = {field: data.draw(st.text().filter(lambda text: text != getattr(entry, field)))}
    forged = [*entries[:at], replace(entry, **change), *entries[at + 1 :]]
    with pytest.raises(LedgerInvalid):
        replay(forged)


@pytest.mark.slow
@given(filter_=st.sampled_from(RULES), value=st.floats(0, 4e6, exclude_max=True))
@settings(max_examples=200, deadline=None)
def test_a_cost_is_never_below_its_curve(filter_: Filter, value: float) -> None:
    class Flat:
        def rdp(self, orders: object) -> object:
            return [value for _ in orders]  # type: ignore[attr-defined]

        def gdp(self) -> float:
            return value**0.5

        def pure(self) -> float:
            return value

        def gdp_bound(self) -> float:
            return value**0.5

        def parts(self) -> tuple[()]:
            return ()

    for cost in filter_.curve(filter_.cost(Flat())):  # type: ignore[arg-type]
        if filter_.kind == "gdp_rdp" and cost == UNAFFORDABLE_UNITS:
            assert value >= UNAFFORDABLE_UNITS / UNIT
            continue
        assert cost >= max(1, value * UNIT * (1 - 1e-15))
        assert cost <= value * UNIT * (1 + 1e-10) + 2
