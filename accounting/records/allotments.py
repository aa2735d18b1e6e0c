"""Allotments: what one analyst may spend of a ledger. Proof: docs/proofs/allotments.md.

All parts of a filter are read on one coordinate k of it, the one that admits the most Gaussian jobs, and on its slack:
a part of share s admits a charge while  sum c_k <= floor(s T_k)  and  sum d <= floor(s T_d). So parts that fit beside
one another (all that is reserved, and what others have spent, is at most T) never meet the whole filter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

import numpy as np

from accounting.charges import APPROXIMATIONS, UNIT, Cost
from accounting.divergences.gaussian import gauss_epsilon, rdp_epsilons
from accounting.errors import BudgetExhausted, LedgerFrozen
from accounting.filter import Filter
from accounting.privacy import Privacy
from accounting.records.events import Charged
from accounting.records.ledger import LedgerState, remaining_epsilon, share, spent_epsilon, step

_UP, _MORE = 1 + 1e-9, 1e-11  # more than a root, a logarithm and a few operations may lose
_BITS = 40  # of a share that is looked for


@dataclass(frozen=True, slots=True)
class Part:
    """At most `top` on the coordinate of all parts, and at most `slack` of the slack: a filter for who spends it alone.

    Parameters
    ----------
    rule : the filter that it is a part of
    top, slack : units of 2^-40; uses, where the filter counts them
    """

    rule: Filter
    top: int
    slack: int

    @staticmethod
    def of(rule: Filter, share: float) -> "Part":
        """The part of this share of a filter, rounded down."""
        top, slack = _tops(rule)
        return Part(rule, math.floor(Fraction(share) * top), math.floor(Fraction(share) * slack))

    def on(self, cost: Cost) -> tuple[int, int]:
        """A vector of the filter as parts read it."""
        return _read(self.rule, cost)

    def holds(self, spent: Cost) -> bool:
        """Whether the part holds these charges."""
        main, slack = self.on(spent)
        return main <= self.top and slack <= self.slack

    @property
    def share(self) -> float:
        """The part as a share of the whole filter."""
        return self.top / _tops(self.rule)[0]

    def used(self, spent: Cost) -> float:
        """These charges as a share of the part."""
        return self.on(spent)[0] / max(self.top, 1)

    def epsilon(self, delta: float) -> float:
        """What the part guarantees at this delta, whatever is spent of it: infinite if nothing.

        It is a part of the budget, whose delta guarantees the budget's epsilon.
        """
        budget = self.rule.privacy
        return min(self._epsilon(delta), budget.epsilon if delta >= budget.delta else math.inf)

    def _epsilon(self, delta: float) -> float:
        rule = self.rule
        if rule.kind == "pure":
            return self.top / UNIT * _UP
        off = rule.slack * (self.slack / (UNIT if rule.kind == "gdp_rdp" else APPROXIMATIONS)) * _UP
        left = delta - off
        if left <= 0:
            return math.inf
        if rule.kind == "rdp":
            found = float(rdp_epsilons([rule.orders[_coordinate(rule)]], np.array([self.top / UNIT]), left)[0])
        else:
            found = gauss_epsilon(math.sqrt(self.top / UNIT) * _UP, left)
        return (max(found, 0.0) - math.log1p(-off)) * _UP + _MORE

    def remaining_epsilon(self, spent: Cost) -> float:
        """The largest epsilon, at the budget's delta, of one more job as `Filter.remaining_epsilon` means it."""
        free, k = self.top - self.on(spent)[0], _coordinate(self.rule)
        # as if nothing were left but this, on this coordinate
        rest = tuple(top - free if j == k else top for j, top in enumerate(self.rule.thresholds))
        return self.rule.remaining_epsilon(rest) if free > 0 else 0.0


@lru_cache(maxsize=1024)
def within(rule: Filter, privacy: Privacy) -> Part:
    """The largest part of a filter that guarantees this (epsilon, delta), the whole at most; empty if none does."""
    low, high = 0, 2**_BITS + 1  # the part of share low / 2^40 keeps it, that of high does not, or is too much
    while high - low > 1:
        middle = (low + high) // 2
        part = Part.of(rule, middle / 2**_BITS)
        low, high = (middle, high) if part.epsilon(privacy.delta) <= privacy.epsilon else (low, middle)
    return Part.of(rule, low / 2**_BITS)


@dataclass(frozen=True, slots=True)
class Allotment:
    """What an analyst may spend; `is_reserved` if nobody else may."""

    part: Part
    is_reserved: bool


@dataclass(frozen=True, slots=True)
class Account:
    """The live charges of one, or of some, on a ledger."""

    spent: Cost
    charges: int


@dataclass(frozen=True, slots=True)
class Standing:
    """A ledger as it stands for one who spends on it. Nothing else is told to them, when they ask or are refused.

    Parameters
    ----------
    state : of the whole ledger
    held : parts that a charge must fit as well, each with what is spent of it
    sees_parts_only : whether only the parts are told: what is outside of them is reserved, to this one or to others
    """

    state: LedgerState
    held: tuple[tuple[Part, Account], ...] = ()
    sees_parts_only: bool = False

    def holds(self, cost: Cost) -> bool:
        """Whether the parts hold this charge as well; the whole has a say of its own."""
        return all(part.holds(_more(account, cost).spent) for part, account in self.held)

    def after(self, charged: Charged) -> "Standing | None":
        """As it stands with one charge more; None if it is not admitted."""
        if not self.holds(charged.cost):
            return None
        try:
            state = step(self.state, charged)
        except (BudgetExhausted, LedgerFrozen):
            return None
        return replace(
            self, state=state, held=tuple((part, _more(account, charged.cost)) for part, account in self.held)
        )

    @property
    def account(self) -> Account:
        """The charges that are told of."""
        return self.held[0][1] if self.sees_parts_only else Account(self.state.spent, self.state.charges)

    @property
    def epsilon(self) -> float:
        """The budget's epsilon, or what the part guarantees at the budget's delta."""
        budget = self.state.filter.privacy
        return self.held[0][0].epsilon(budget.delta) if self.sees_parts_only else budget.epsilon

    def spent_epsilon(self) -> float:
        """What the charges that are told of guarantee at the budget's delta."""
        if not self.sees_parts_only:
            return spent_epsilon(self.state)
        return min(self.epsilon, self.state.filter.spent_epsilon(self.account.spent))

    def remaining_epsilon(self) -> float:
        """The largest epsilon, at the budget's delta, of one more Gaussian job (pure under `pure`) that is admitted."""
        parts = [part.remaining_epsilon(account.spent) for part, account in self.held]
        found = min(parts, default=math.inf)
        return found if self.sees_parts_only else min(found, remaining_epsilon(self.state))

    def share(self, cost: Cost) -> float:
        """A live charge, or a sum of them, as a share of what is told of: of the whole budget, or of the part."""
        return self.held[0][0].used(cost) if self.sees_parts_only else share(self.state, cost)


def standing(
    state: LedgerState, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment], who: str
) -> Standing:
    """What the ledger says to `who`.

    Who has a reserved allotment is told of that alone. To all others what is reserved is as if it were spent: they
    have the rest together, and beside it each the own cap.

    Parameters
    ----------
    accounts, allotments : by who spends
    """
    own, nothing = allotments.get(who), Account(state.filter.zero_cost, 0)
    if own is not None and own.is_reserved:
        return Standing(state, ((own.part, accounts.get(who, nothing)),), sees_parts_only=True)
    cap = () if own is None else ((own.part, accounts.get(who, nothing)),)
    if not any(allotment.is_reserved for allotment in allotments.values()):
        return Standing(state, cap)
    return Standing(state, (_pool(state.filter, accounts, allotments), *cap), sees_parts_only=True)


def fit(state: LedgerState, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment]) -> bool:
    """Whether reservations hold what their analysts have spent, and leave what all others have: a law of the ledger."""
    rest, spent = _pool(state.filter, accounts, allotments)
    own = ((a.part, accounts[who].spent) for who, a in allotments.items() if a.is_reserved and who in accounts)
    return not state.whole and rest.holds(spent.spent) and all(part.holds(mine) for part, mine in own)


def _pool(rule: Filter, accounts: Mapping[str, Account], allotments: Mapping[str, Allotment]) -> tuple[Part, Account]:
    """What reservations leave, and what all who have none have spent of it."""
    reserved = {who: allotment.part for who, allotment in allotments.items() if allotment.is_reserved}
    top, slack = _tops(rule)
    rest = Part(rule, top - sum(p.top for p in reserved.values()), slack - sum(p.slack for p in reserved.values()))
    others = [account for who, account in accounts.items() if who not in reserved]
    spent = tuple(map(sum, zip(rule.zero_cost, *(account.spent for account in others), strict=True)))
    return rest, Account(spent, sum(account.charges for account in others))


def _coordinate(rule: Filter) -> int:
    """The coordinate of all parts: mu^2 or epsilon where there is one, else the order with the most Gaussian mu^2."""
    if rule.kind != "rdp":
        return 0
    tops = rule.curve(rule.thresholds)
    return max(range(len(tops)), key=lambda k: tops[k] / rule.orders[k])


def _read(rule: Filter, cost: Cost) -> tuple[int, int]:
    return cost[_coordinate(rule)], cost[-1] if rule.slack else 0


def _tops(rule: Filter) -> tuple[int, int]:
    return _read(rule, rule.thresholds)


def _more(account: Account, cost: Cost) -> Account:
    return Account(tuple(a + b for a, b in zip(account.spent, cost, strict=True)), account.charges + 1)


__all__ = ["Account", "Allotment", "Part", "Standing", "fit", "standing", "within"]
