"""An adversary who plays sessions against the ledger, and chooses what to reserve, record, close and when to stop.

Answers have laws on a few outcomes, whose losses are multiples of 1/10. The adversary sees all answers and chooses the
best set S at the end. The largest P(S) - e^epsilon Q(S) over all strategies is a finite recursion, without any
arithmetic of the filter. The ledger's own state machine decides what is admitted and returned. Rules that return more
are caught: the same adversary exceeds delta.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtri

from accounting import Privacy
from accounting.charges import Cost
from accounting.errors import BudgetExhausted
from accounting.filter import Filter, Kind
from accounting.mechanisms.mechanism import Curves
from accounting.privacy import Relation
from accounting.records.events import Charged, Opened, Reserved, Settled
from accounting.records.ledger import LedgerState, step
from accounting.records.sessions import PlannedEvent, SessionPlan, refund
from tests.support.chains import charge_of

STEP = 0.1
EPSILON = 1.0
Values = NDArray[np.float64]
RefundRule = Callable[[Filter, Cost, SessionPlan, Sequence[int], bool], Cost]


@dataclass(frozen=True)
class Answer:
    """A symmetric pair: P has mass p at a loss and p e^-loss at the opposite one, and Q the reverse.

    Parameters
    ----------
    weights : mass at each loss of this many steps together with its opposite; they add up to 1
    """

    weights: tuple[tuple[int, float], ...]

    @staticmethod
    def bell(mu: float) -> "Answer":
        """Return a pair that is close to N(0, 1) against N(mu, 1)."""
        losses = np.arange(1, math.ceil((mu * mu / 2 + 4 * mu) / STEP) + 1)
        mass = np.exp(-((losses * STEP - mu * mu / 2) ** 2) / (2 * mu * mu)) * (1 + np.exp(-losses * STEP))
        return Answer(tuple((int(loss), float(m)) for loss, m in zip(losses, mass / mass.sum(), strict=True)))

    @property
    def outcomes(self) -> dict[int, float]:
        """P's mass at each loss, in steps."""
        ahead = {loss: weight / (1 + math.exp(-loss * STEP)) for loss, weight in self.weights}
        return ahead | {-loss: p * math.exp(-loss * STEP) for loss, p in ahead.items()}

    def curves(self, _: Relation = "replace_one") -> Curves:
        """Return its exact curves; mu is exact because the trade-off curve is a polygon."""
        outcomes = sorted(self.outcomes.items(), reverse=True)
        upper = np.cumsum([p for _, p in outcomes])[:-1]
        lower = np.cumsum([p * math.exp(-loss * STEP) for loss, p in outcomes])[:-1]
        mu = float(np.max(ndtri(upper) - ndtri(lower))) * (1 + 1e-9)

        def rdp(orders: Sequence[float]) -> Values:
            moments = [sum(p * math.exp((a - 1) * STEP * loss) for loss, p in outcomes) for a in orders]
            return np.log(moments) / (np.array(orders) - 1)

        return Curves(rdp, mu, mu, max(self.outcomes) * STEP)


@dataclass(frozen=True)
class TwoAnswers(Answer):
    """A jointly priced interactive event: the law of the second answer depends on the first one.

    Other answers may come in between, and the second one may never be asked for. So the price is that of both: the
    moments of their joint law, and the largest loss that they may have together. There is no mu.

    Parameters
    ----------
    second : the second answer after each loss of the first one
    """

    second: tuple[tuple[int, Answer], ...] = ()

    def curves(self, _: Relation = "replace_one") -> Curves:
        law = [(a + b, p * q) for a, p in self.outcomes.items() for b, q in dict(self.second)[a].outcomes.items()]

        def rdp(orders: Sequence[float]) -> Values:
            moments = [sum(p * math.exp((a - 1) * STEP * loss) for loss, p in law) for a in orders]
            return np.log(moments) / (np.array(orders) - 1)

        return Curves(rdp, pure=max(loss for loss, _ in law) * STEP)


@dataclass(frozen=True)
class Law(Answer):
    """P's mass at each loss; the losses need not be integers."""

    masses: tuple[tuple[float, float], ...] = ()

    @property
    def outcomes(self) -> dict[int, float]:
        """P's mass at each loss, in steps."""
        return dict(self.masses)  # type: ignore[arg-type]


@dataclass(frozen=True)
class SecretSlot(TwoAnswers):
    """A random allocation to two slots, at the price of a known slot.

    The answer of the record's slot is +1 or -1 by randomized response, and that of the other slot by a fair coin.
    """

    known_slot: Answer = Answer(())

    @staticmethod
    def of(loss: int) -> "SecretSlot":
        """Return the use whose answers are randomized response at so many steps."""
        a = 1 / (1 + math.exp(-loss * STEP))  # of the right answer in the record's slot
        likely = {(y, z): ((a if y > 0 else 1 - a) + (a if z > 0 else 1 - a)) / 4 for y in (1, -1) for z in (1, -1)}
        first = {y: likely[y, 1] + likely[y, -1] for y in (1, -1)}
        ahead = math.log(first[1] / first[-1]) / STEP
        second_laws = {
            y: tuple(
                (math.log(likely[y, z] / likely[-y, -z]) / STEP - y * ahead, likely[y, z] / first[y]) for z in (1, -1)
            )
            for y in (1, -1)
        }
        second = tuple((y * ahead, Law((), second_laws[y])) for y in (1, -1))
        return SecretSlot(((ahead, 1.0),), second, Answer(((loss, 1.0),)))  # type: ignore[arg-type]

    def curves(self, relation: Relation = "replace_one") -> Curves:
        return replace(self.known_slot.curves(relation), pure=None)


def plan(*uses: tuple[Answer, int]) -> SessionPlan:
    return SessionPlan(tuple(PlannedEvent(answer, count) for answer, count in uses))  # type: ignore[arg-type]


SMALL, MEDIUM, RARE = Answer(((1, 1.0),)), Answer.bell(0.25), Answer(((1, 1 - 2e-4), (12, 2e-4)))


@dataclass(frozen=True)
class Session:
    """An open session of the adversary: which plan it reserved, and the recorded uses of each event.

    `second` are the answers that begun uses may still give.
    """

    kind: int
    recorded: tuple[int, ...]
    second: tuple[Answer, ...] = ()


@dataclass(frozen=True)
class Position:
    """The live charges, the sessions and the number of answers so far. The loss is not a part of it."""

    spent: Cost
    charges: int
    whole: bool
    sessions: tuple[Session, ...]
    answers: int


@dataclass
class Game:
    """The ledger, the available jobs and sessions, and the rule of refunds.

    Parameters
    ----------
    rule : the dataset's filter
    jobs : answers that jobs may give
    plans : of sessions, with their own guarantee if they have one
    returned : the rule of refunds; the honest one is checked by the ledger itself
    most_answers : bounds the adversary, for rules that never end
    """

    rule: Filter
    jobs: tuple[Answer, ...]
    plans: tuple[tuple[SessionPlan, Privacy | None], ...]
    returned: RefundRule
    is_honest: bool = True
    most_answers: int = 14
    price: Callable[[Filter, SessionPlan], Cost] = Filter.cost
    open_sessions: int = 1
    values: dict[Position, Values] = field(default_factory=dict)
    longest: int = 0

    def __post_init__(self) -> None:
        answers = [*self.jobs, *(_answer(e) for planned, _ in self.plans for e in planned.events)]
        answers += [second for a in answers if isinstance(a, TwoAnswers) for _, second in a.second]
        self.reach = self.most_answers * math.ceil(max(max(answer.outcomes) for answer in answers))
        losses = np.arange(-self.reach, self.reach + 1) * STEP
        self.stopped = np.maximum(0.0, -np.expm1(np.minimum(self.rule.privacy.epsilon - losses, 700.0)))
        self.costs = [self.price(self.rule, planned) for planned, _ in self.plans]
        self.job_costs = [self.price(self.rule, plan((job, 1))) for job in self.jobs]
        self.opened = step(None, Opened("d1", 100, self.rule))

    def largest_delta(self) -> float:
        """Return the largest P(S) - e^epsilon Q(S) = E_P[1_S (1 - e^(epsilon - loss))] over all strategies."""
        return float(self.value(Position(self.rule.zero_cost, 0, False, (), 0))[self.reach])

    def value(self, position: Position) -> Values:
        """Return the best value at each loss. Positions without an answer in between are reached for free."""
        best = self.stopped
        for reached in self.reachable(position):
            best = np.maximum(best, self.after_an_answer(reached))
        return best

    def largest_delta_off_the_grid(self) -> float:
        """Return the same as `largest_delta` for losses that are not integers, one position at a time."""
        best_values: dict[tuple[Position, float], float] = {}

        def value(position: Position, loss: float) -> float:
            key = (position, round(loss, 9))
            if key not in best_values:
                best = max(0.0, -math.expm1(self.rule.privacy.epsilon - loss * STEP))
                for reached in self.reachable(position):
                    for answer, position_after in self.next_answers(reached):
                        outcomes = ((p, own, position_after(own)) for own, p in answer.outcomes.items())
                        outcomes_after = (
                            (p, own, replace(reached_after, answers=reached_after.answers + 1))
                            for p, own, reached_after in outcomes
                        )
                        best = max(
                            best, sum(p * value(reached_after, loss + own) for p, own, reached_after in outcomes_after)
                        )
                best_values[key] = best
            return best_values[key]

        return value(Position(self.rule.zero_cost, 0, False, (), 0), 0.0)

    def reachable(self, position: Position) -> list[Position]:
        positions, waiting = {position: None}, [position]
        while waiting:
            for neighbor in self.moves(waiting.pop()):
                if neighbor not in positions:
                    positions[neighbor] = None
                    waiting.append(neighbor)
        return list(positions)

    def after_an_answer(self, position: Position) -> Values:
        if position not in self.values:
            self.longest = max(self.longest, position.answers)
            best = self.stopped
            if position.answers < self.most_answers:
                for answer, position_after in self.next_answers(position):
                    best = np.maximum(best, self.averaged(answer, position_after))
            self.values[position] = best
        return self.values[position]

    def averaged(self, answer: Answer, position_after: Callable[[int], Position]) -> Values:
        """Return E_P of the value after one answer, at each loss before it."""
        total, values = np.zeros_like(self.stopped), dict[Position, Values]()
        for loss, p in answer.outcomes.items():
            reached = position_after(loss)
            if reached not in values:
                values[reached] = self.value(replace(reached, answers=reached.answers + 1))
            ends = (values[reached][0], values[reached][-1])
            total += p * np.pad(values[reached], abs(loss), constant_values=ends)[abs(loss) + loss :][: len(total)]
        return total

    def next_answers(self, position: Position) -> Iterator[tuple[Answer, Callable[[int], Position]]]:
        """Yield the next answers, and the position after each outcome.

        A job is charged for its answer. An open session records a use, and later uses need no further record.
        """
        state = self.state(position)
        for job, cost in zip(self.jobs, self.job_costs, strict=True):
            charged = _admitted(state, charge_of("j", cost, Privacy(100.0, 1e-2)))
            if charged is not None:
                position_after = self.position(charged, position.sessions, position.answers)
                yield job, lambda _, position_after=position_after: position_after  # type: ignore[misc]
        for i, session in enumerate(position.sessions):
            for answer, later in self.of_session(session):

                def after_outcome(loss: int, i: int = i, later: Callable[[int], Session] = later) -> Position:
                    sessions = (*position.sessions[:i], *position.sessions[i + 1 :])
                    return replace(position, sessions=_sorted(*sessions, later(loss)))

                yield answer, after_outcome

    def of_session(self, session: Session) -> Iterator[tuple[Answer, Callable[[int], Session]]]:
        for answer in session.second:
            remaining = replace(session, second=tuple(other for other in session.second if other is not answer))
            yield answer, lambda _, remaining=remaining: remaining  # type: ignore[misc]
        for e, planned in enumerate(self.plans[session.kind][0].events):
            if session.recorded[e] < planned.count:
                recorded = tuple(k + (j == e) for j, k in enumerate(session.recorded))
                used, first = replace(session, recorded=recorded), _answer(planned)
                if isinstance(first, TwoAnswers):
                    second = dict(first.second)
                    yield (
                        first,
                        lambda loss, used=used, second=second: replace(  # type: ignore[misc]
                            used, second=(*used.second, second[loss])
                        ),
                    )
                else:
                    yield first, lambda _, used=used: used  # type: ignore[misc]

    def moves(self, position: Position) -> Iterator[Position]:
        """Reserve a session, or close one."""
        state = self.state(position)
        for kind, (planned, guarantee) in enumerate(self.plans):
            if len(position.sessions) < self.open_sessions:
                reservation = Reserved("s", "d1", "ada", [], self.costs[kind], guarantee, "later")
                reserved = _admitted(state, reservation)
                if reserved is not None:
                    opened = Session(kind, (0,) * len(planned.events))
                    yield self.position(reserved, _sorted(*position.sessions, opened), position.answers)
        for i, session in enumerate(position.sessions):
            sessions = (*position.sessions[:i], *position.sessions[i + 1 :])
            yield self.position(self.closed(state, session), sessions, position.answers)

    def closed(self, state: LedgerState, session: Session) -> LedgerState:
        planned, cost = self.plans[session.kind][0], self.costs[session.kind]
        returned_cost = self.returned(self.rule, cost, planned, session.recorded, state.whole)
        end = Settled("s", list(session.recorded), returned_cost, state.whole, "closed")
        if self.is_honest:
            return step(state, end)
        spent = tuple(a - b for a, b in zip(state.spent, returned_cost, strict=True))
        return replace(
            state, spent=spent, charges=state.charges - end.frees_charge, whole=state.whole and not any(returned_cost)
        )

    def state(self, position: Position) -> LedgerState:
        return replace(self.opened, spent=position.spent, charges=position.charges, whole=position.whole)

    def position(self, state: LedgerState, sessions: tuple[Session, ...], answers: int) -> Position:
        return Position(state.spent, state.charges, state.whole, sessions, answers)


def _admitted(state: LedgerState, event: Charged | Reserved) -> LedgerState | None:
    try:
        return step(state, event)
    except BudgetExhausted:
        return None


def _answer(planned: PlannedEvent) -> Answer:
    """Return the answer of an event of this file."""
    assert isinstance(planned.event, Answer)
    return planned.event


def _sorted(*sessions: Session) -> tuple[Session, ...]:
    """Return the sessions in one order. They have no names, so equal sessions can be exchanged."""
    return tuple(sorted(sessions, key=repr))


def honest(rule: Filter, cost: Cost, planned: SessionPlan, recorded: Sequence[int], whole: bool) -> Cost:
    return refund(rule, cost, planned, recorded, whole=whole)


def exact_delta(answer: Answer, count: int, epsilon: float) -> float:
    """Return delta(epsilon) of this number of answers, fixed in advance."""
    law = {0: 1.0}
    for _ in range(count):
        convolved: dict[int, float] = {}
        for loss, p in law.items():
            for own, q in answer.outcomes.items():
                convolved[loss + own] = convolved.get(loss + own, 0.0) + p * q
        law = convolved
    return sum(p * max(0.0, -math.expm1(epsilon - loss * STEP)) for loss, p in law.items())


TWO = Answer(((2, 1.0),))
KINDS: tuple[Kind, ...] = ("rdp", "gdp", "gdp_rdp", "pure")
MIXED_JOBS = (TWO, MEDIUM, RARE)
EXACT = 1e-15  # more than the sums of a few products lose
SLOTS = 6


@dataclass(frozen=True)
class Allocated(Answer):
    """A jointly priced event of six answers: the attacker knows that the record is in the first slot.

    The other answers are about other records. They have no loss, so the adversary leaves them out.
    """


def filter_of(kind: Kind, delta: float = 1e-2) -> Filter:
    return Filter.open(kind, Privacy(EPSILON, 0.0 if kind == "pure" else delta))


def game(kind: Kind, returned: RefundRule, *, is_honest: bool, **options: Any) -> Game:
    """Return a game of two kinds of sessions beside jobs. Under `pure`, the answers fit its budget."""
    if kind == "pure":
        plans = ((plan((TWO, 2), (SMALL, 2)), None), (plan((Allocated(SMALL.weights), 3)), None))
        return Game(filter_of(kind), (SMALL, TWO), plans, returned, is_honest, **options)
    plans = ((plan((TWO, 2), (RARE, 1)), None), (plan((Allocated(MEDIUM.weights), 2)), None))
    return Game(filter_of(kind), MIXED_JOBS, plans, returned, is_honest, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_no_adversary_exceeds_the_budget_with_two_sessions_at_once(kind: Kind) -> None:
    played = game(kind, honest, is_honest=True, open_sessions=2, most_answers=20)
    adversary_delta, delta = played.largest_delta(), played.rule.privacy.delta
    assert adversary_delta <= delta + EXACT
    assert adversary_delta >= delta / 20, "the adversary reaches a twentieth of the budget"
    assert 2 <= played.longest < played.most_answers, "the ledger ends the game, not the limit on answers"
    assert any(sum(map(sum, (s.recorded for s in position.sessions))) > 1 for position in played.values)


@pytest.mark.parametrize("kind", ["rdp", "gdp_rdp", "pure"])
def test_no_adversary_exceeds_the_budget_between_the_answers_of_one_use(kind: Kind) -> None:
    """Jobs, and answers of the same session, come between two answers that were priced together."""
    weak, strong = (SMALL, TWO) if kind == "pure" else (SMALL, Answer(((4, 1.0),)))
    joint = TwoAnswers(((1, 1.0),), second=((1, weak), (-1, strong)))
    plans = ((plan((joint, 1), (TWO, 1)), None),)
    jobs = (TWO,) if kind == "pure" else (TWO, RARE)
    played = Game(filter_of(kind), jobs, plans, honest, open_sessions=2, most_answers=20)
    delta = played.rule.privacy.delta
    assert delta / 40 <= played.largest_delta() <= delta + EXACT
    assert any(len(position.sessions) > 1 and position.sessions[0].second for position in played.values)


@pytest.mark.parametrize("kind", ["rdp", "gdp", "gdp_rdp"])
def test_no_adversary_exceeds_the_budget_between_secret_slots(kind: Kind) -> None:
    """A use costs what a known slot costs, although other answers come between its two answers."""
    loud = 3
    plans = ((plan((SecretSlot.of(loud), 1)), None),)
    played = Game(filter_of(kind), (TWO, RARE), plans, honest, open_sessions=2, most_answers=12)
    adversary_delta, delta = played.largest_delta_off_the_grid(), played.rule.privacy.delta
    assert 0 < adversary_delta <= delta + EXACT
    sure = Game(filter_of(kind), (TWO, RARE), ((plan((Answer(((loud, 1.0),)), 1)), None),), honest)
    assert played.price(played.rule, plans[0][0]) == sure.price(sure.rule, sure.plans[0][0])
    assert max(SecretSlot.of(loud).outcomes) < loud / 2, "one answer alone reveals less than half"


def returns_begun_allocations(rule: Filter, cost: Cost, planned: SessionPlan, recorded: Sequence[int], _: bool) -> Cost:
    """Return the part of the answers that were not given of every begun use of a jointly priced event."""
    part = planned.recorded(recorded)
    used = [
        tuple(c // (SLOTS if isinstance(e.event, Allocated) else 1) for c in rule.cost(SessionPlan((e,))))
        for e in part.events
    ]
    return tuple(max(0, c - sum(column)) for c, *column in zip(cost, *used, strict=True)) if used else cost


def returns_all(_: Filter, cost: Cost, __: SessionPlan, ___: Sequence[int], ____: bool) -> Cost:
    return cost


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("returned", [returns_begun_allocations, returns_all])
def test_a_rule_that_returns_answers_is_caught(kind: Kind, returned: RefundRule) -> None:
    played = game(kind, returned, is_honest=False, most_answers=11)
    assert played.largest_delta() > 1.2 * played.rule.privacy.delta + 1e-3


def returns_nothing(_: Filter, cost: Cost, __: SessionPlan, ___: Sequence[int], ____: bool) -> Cost:
    return (0,) * len(cost)


@pytest.mark.parametrize("kind", KINDS)
def test_a_program_that_records_too_little_gains_nothing_without_refunds(kind: Kind) -> None:
    """Under `no_refund` a charge does not depend on what was recorded. The test above shows the gain under `refund`."""
    played = game(kind, returns_nothing, is_honest=True, open_sessions=2, most_answers=20)
    delta = played.rule.privacy.delta
    assert delta / 20 <= played.largest_delta() <= delta + EXACT
    assert played.longest < played.most_answers, "the ledger ends the game, not the limit on answers"


WHOLE_COUNT = 7


def whole_game(kind: Kind, returned: RefundRule, *, is_honest: bool) -> Game:
    """Return a game of a session that the filter alone refuses. Its seven answers are exactly (epsilon, delta)-DP."""
    own = Privacy(EPSILON, exact_delta(TWO, WHOLE_COUNT, EPSILON) * (1 + 1e-9))
    rule, planned = filter_of(kind, own.delta), plan((TWO, WHOLE_COUNT))
    assert not rule.admits(rule.zero_cost, rule.cost(planned))
    return Game(rule, MIXED_JOBS, ((planned, own),), returned, is_honest)


def returns_of_a_whole_budget(rule: Filter, cost: Cost, planned: SessionPlan, recorded: Sequence[int], _: bool) -> Cost:
    return refund(rule, cost, planned, recorded, whole=False)


@pytest.mark.parametrize("kind", ["rdp", "gdp", "gdp_rdp"])
def test_a_session_with_the_whole_budget_uses_all_of_it_and_no_more(kind: Kind) -> None:
    played = whole_game(kind, honest, is_honest=True)
    delta = played.rule.privacy.delta
    assert delta * (1 - 1e-8) <= played.largest_delta() <= delta


@pytest.mark.parametrize("kind", ["rdp", "gdp", "gdp_rdp"])
def test_a_refund_of_a_whole_budget_is_caught(kind: Kind) -> None:
    """The counterexample of docs/proofs/sessions.md: stop after bad answers, and spend the rest on other answers."""
    played = whole_game(kind, returns_of_a_whole_budget, is_honest=False)
    assert played.largest_delta() > played.rule.privacy.delta * 1.002


def coarse_price(rule: Filter, planned: SessionPlan) -> Cost:
    """Return the price in units of 31 % of each threshold, rounded up."""
    units = [31 * top // 100 for top in rule.thresholds]
    return tuple(-(-c // unit) * unit for c, unit in zip(rule.cost(planned), units, strict=True))


def returns_rounded(is_down: bool) -> RefundRule:
    """Return the rule that prices the recorded part in coarse units, rounded up or down, at least one unit of 2^-40."""

    def returned(rule: Filter, cost: Cost, planned: SessionPlan, recorded: Sequence[int], _: bool) -> Cost:
        part = planned.recorded(recorded)
        if not part.events:
            return cost
        used, unit = coarse_price(rule, part), 31 * rule.thresholds[0] // 100
        if is_down:
            used = tuple(max(1, int(Fraction(c, unit)) * unit) for c in rule.cost(part))
        return tuple(max(0, c - u) for c, u in zip(cost, used, strict=True))

    return returned


@pytest.mark.parametrize("is_down", [False, True])
def test_a_price_of_the_recorded_part_that_is_rounded_down_is_caught(is_down: bool) -> None:
    """Rounded up, the same coarse units keep the budget."""
    rule = filter_of("gdp")
    plans = ((plan((MEDIUM, 1)), None), (plan((MEDIUM, 2)), None))
    played = Game(rule, MIXED_JOBS, plans, returns_rounded(is_down), is_honest=not is_down, price=coarse_price)
    assert (played.largest_delta() > 1.2 * rule.privacy.delta) is is_down


def test_the_adversary_of_answers_fixed_in_advance_finds_their_exact_delta() -> None:
    """The recursion and the sum over all outcomes agree."""
    rule = filter_of("pure")
    loose = replace(rule, privacy=Privacy(0.3))
    played = Game(loose, (), ((plan((SMALL, 9)), None),), honest)
    assert played.largest_delta() == pytest.approx(exact_delta(SMALL, 9, 0.3), rel=1e-12)
