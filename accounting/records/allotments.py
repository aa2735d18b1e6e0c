"""Allotments: the part of a ledger's budget that one analyst may spend. Proof: docs/proofs/allotments.md.

All parts of a filter limit its slack and one coordinate k, the one that admits the most Gaussian jobs. A part of
share s admits a charge while  sum c_k <= floor(s T_k)  and  sum d <= floor(s T_d). So if the reserved parts and
everything that other analysts have spent add up to at most T, the whole filter admits all charges that the parts admit.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from accounting.charges import APPROXIMATIONS, UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, rdp_epsilons
from accounting.errors import BudgetExhausted
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.chain import Entry
from accounting.records.events import Charged, Reserved
from accounting.records.ledger import LedgerState, enter, remaining_epsilon, share, spent_epsilon, step

_ROUNDING, _ABSOLUTE_ROUNDING = 1 + 1e-9, 1e-11  # more than a root, a logarithm and a few operations may lose
_SHARE_BITS = 40  # precision of a share that `largest_part` searches


@dataclass(frozen=True, slots=True)
class Part:
    """A filter for one analyst: at most `top` on the coordinate of all parts, and at most `slack` of the slack.

    Parameters
    ----------
    rule : the whole filter
    top : in units of 2^-40
    slack : in units of 2^-40, or a number of uses if the filter counts them
    """

    rule: Filter
    top: int
    slack: int

    @staticmethod
    def of(rule: Filter, share: float) -> "Part":
        """Return the part of this share of a filter, rounded down."""
        top, slack = _top_and_slack(rule, rule.thresholds)
        return Part(rule, math.floor(Fraction(share) * top), math.floor(Fraction(share) * slack))

    def holds(self, spent: Cost) -> bool:
        """Return whether these charges are within the part."""
        top, slack = _top_and_slack(self.rule, spent)
        return top <= self.top and slack <= self.slack

    @property
    def share(self) -> float:
        """The part as a share of the whole filter."""
        return self.top / _top_and_slack(self.rule, self.rule.thresholds)[0]

    def used(self, spent: Cost) -> float:
        """Return these charges as a share of the part."""
        return _top_and_slack(self.rule, spent)[0] / max(self.top, 1)

    def epsilon(self, delta: float) -> float:
        """Return what the part guarantees at this delta, whatever is spent of it; infinite if it guarantees nothing.

        It is at most the budget's epsilon at the budget's delta, since it is a part of the budget.
        """
        budget = self.rule.privacy
        return min(self._epsilon(delta), budget.epsilon if delta >= budget.delta else math.inf)

    def _epsilon(self, delta: float) -> float:
        rule, total = self.rule, self.top / UNIT
        if rule.kind == "pure":
            return total * _ROUNDING
        d = rule.slack * (self.slack / (UNIT if rule.kind == "gdp_rdp" else APPROXIMATIONS)) * _ROUNDING
        delta -= d
        if delta <= 0:
            return math.inf
        if rule.kind == "rdp":
            epsilon = float(rdp_epsilons([rule.orders[_coordinate(rule)]], np.array([total]), delta)[0])
        else:
            epsilon = gauss_epsilon(math.sqrt(total) * _ROUNDING, delta)
        return (max(epsilon, 0.0) - math.log1p(-d)) * _ROUNDING + _ABSOLUTE_ROUNDING

    def remaining_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon, at the budget's delta, of one more job in this part (`Filter.remaining_epsilon`).

        It is that of the whole filter with a remainder on this coordinate only.
        """
        remainder = self.top - _top_and_slack(self.rule, spent)[0]
        k = _coordinate(self.rule)
        if remainder <= 0:
            return 0.0
        return self.rule.remaining_epsilon(
            tuple(top - remainder if j == k else top for j, top in enumerate(self.rule.thresholds))
        )


@lru_cache(maxsize=1024)
def largest_part(rule: Filter, privacy: Privacy) -> Part:
    """Return the largest part of a filter that guarantees this (epsilon, delta); empty if none does."""
    low, high = 0, 2**_SHARE_BITS + 1  # the share low / 2^40 keeps the guarantee; high / 2^40 does not, or is too large
    while high - low > 1:
        middle = (low + high) // 2
        part = Part.of(rule, middle / 2**_SHARE_BITS)
        low, high = (middle, high) if part.epsilon(privacy.delta) <= privacy.epsilon else (low, middle)
    return Part.of(rule, low / 2**_SHARE_BITS)


@dataclass(frozen=True, slots=True)
class Allotment:
    """The part that an analyst may spend; no other analyst may spend it if `is_reserved`."""

    part: Part
    is_reserved: bool


@dataclass(frozen=True, slots=True)
class Account:
    """The live charges of one analyst, or of several, on a ledger."""

    spent: Cost
    charges: int

    def plus(self, cost: Cost) -> "Account":
        """Return the account with one more charge."""
        return Account(tuple(a + b for a, b in zip(self.spent, cost, strict=True)), self.charges + 1)


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger as one analyst may see it. Budgets, quotes and refusals report nothing else to that analyst.

    Parameters
    ----------
    state : of the whole ledger
    parts : parts that a charge must fit as well, each with the account of what is spent of it
    sees_parts_only : everything outside of the parts is reserved, so only the first part is reported
    """

    state: LedgerState
    parts: tuple[tuple[Part, Account], ...] = ()
    sees_parts_only: bool = False

    def holds(self, cost: Cost) -> bool:
        """Return whether the parts admit this charge as well. The whole filter decides for itself."""
        return all(part.holds(account.plus(cost).spent) for part, account in self.parts)

    def charge(self, event: Charged | Reserved, at: str) -> tuple["Standing", Entry]:
        """Return the standing after a charge, and the entry that records it.

        Raises
        ------
        BudgetExhausted
            if the filter or a part does not admit the charge.
        LedgerFrozen, LedgerInvalid
            as `accounting.records.ledger.advance`.
        """
        charged = self.plus(event)
        state, entry = enter(charged.state, event, at)
        return replace(charged, state=state), entry

    def plus(self, event: Charged | Reserved) -> "Standing":
        """Return the standing after a charge, without its entry; raises as `charge`."""
        state = step(self.state, event)
        if not self.holds(event.cost):
            raise BudgetExhausted("the allotment does not admit this charge")
        return replace(self, state=state, parts=tuple((part, account.plus(event.cost)) for part, account in self.parts))

    @property
    def account(self) -> Account:
        """The charges that are reported."""
        return self.parts[0][1] if self.sees_parts_only else Account(self.state.spent, self.state.charges)

    @property
    def epsilon(self) -> float:
        """The budget's epsilon, or what the first part guarantees at the budget's delta."""
        budget = self.state.filter.privacy
        return self.parts[0][0].epsilon(budget.delta) if self.sees_parts_only else budget.epsilon

    def spent_epsilon(self) -> float:
        """Return what the reported charges guarantee at the budget's delta."""
        if not self.sees_parts_only:
            return spent_epsilon(self.state)
        return min(self.epsilon, self.state.filter.spent_epsilon(self.account.spent))

    def remaining_epsilon(self) -> float:
        """Return the largest epsilon, at the budget's delta, of one more Gaussian job (pure under `pure`)."""
        by_part = [part.remaining_epsilon(account.spent) for part, account in self.parts]
        epsilon = min(by_part, default=math.inf)
        return epsilon if self.sees_parts_only else min(epsilon, remaining_epsilon(self.state))

    def share(self, cost: Cost) -> float:
        """Return a live charge, or a sum of them, as a share of what is reported: the budget, or the first part."""
        return self.parts[0][0].used(cost) if self.sees_parts_only else share(self.state, cost)


def standing(
    state: LedgerState, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment], analyst: str
) -> Standing:
    """Return the ledger as one analyst may see it.

    An analyst with a reserved allotment sees that allotment only. For all others, reserved parts count as spent: they
    share the rest, and each one may have a cap on it.

    Parameters
    ----------
    accounts, allotments : by analyst
    """
    own = allotments.get(analyst)
    account = accounts.get(analyst, Account(state.filter.zero_cost, 0))
    if own is not None and own.is_reserved:
        return Standing(state, ((own.part, account),), sees_parts_only=True)
    cap = () if own is None else ((own.part, account),)
    if not any(allotment.is_reserved for allotment in allotments.values()):
        return Standing(state, cap)
    return Standing(state, (_shared_pool(state.filter, accounts, allotments), *cap), sees_parts_only=True)


def reservations_fit(state: LedgerState, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment]) -> bool:
    """Return whether reserved parts hold what their analysts have spent, and leave room for what others have spent."""
    pool, account = _shared_pool(state.filter, accounts, allotments)
    reserved = ((a.part, accounts[name].spent) for name, a in allotments.items() if a.is_reserved and name in accounts)
    return not state.whole and pool.holds(account.spent) and all(part.holds(spent) for part, spent in reserved)


def _shared_pool(
    rule: Filter, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment]
) -> tuple[Part, Account]:
    """Return the part that reservations leave, and what analysts without a reservation have spent of it."""
    reserved = {name: allotment.part for name, allotment in allotments.items() if allotment.is_reserved}
    top, slack = _top_and_slack(rule, rule.thresholds)
    pool = Part(rule, top - sum(p.top for p in reserved.values()), slack - sum(p.slack for p in reserved.values()))
    sharing = [account for name, account in accounts.items() if name not in reserved]
    spent = tuple(map(sum, zip(rule.zero_cost, *(account.spent for account in sharing), strict=True)))
    return pool, Account(spent, sum(account.charges for account in sharing))


def _coordinate(rule: Filter) -> int:
    """Return the coordinate of all parts: that of mu^2 or epsilon, or the order with the most Gaussian mu^2."""
    if rule.kind != "rdp":
        return 0
    tops = rule.curve(rule.thresholds)
    return max(range(len(tops)), key=lambda k: tops[k] / rule.orders[k])


def _top_and_slack(rule: Filter, cost: Cost) -> tuple[int, int]:
    """Return the two coordinates of a vector of the filter that parts limit: the one of all parts, and the slack."""
    return cost[_coordinate(rule)], cost[-1] if rule.slack else 0
