"""Privacy filters: a job is admitted if the sum of live charges stays within a threshold that was fixed beforehand.

A charge is a vector of integers in units of 2^-40, rounded up; thresholds are rounded down. So sums are exact, and
admission is one comparison for any number of jobs. Proof: docs/proofs/filter.md.

    rdp      charge rho(a_k) at fixed orders a_k;  admit iff some k has  sum rho(a_k) <= B_k,
             B_k = epsilon - ln(1 - 1/a_k) + ln(a_k w_k delta) / (a_k - 1),  sum of the weights w_k <= 1
    gdp      charge mu^2;  admit iff  sum mu^2 <= mu*(epsilon, delta)^2
    gdp_rdp  charge both;  admit iff  sum mu^2 <= T_0  or some k has  sum rho(a_k) <= B_k at w_k delta',
             and  sum d <= slack;  delta' = delta - slack, all weights together <= 1, and T_0 at least
             mu*(epsilon + ln(1 - slack), w_0 delta')^2: the orders cover a part of the loss of Gaussian jobs
    pure     charge epsilon;  admit iff  sum epsilon_i <= epsilon

The slack is a part of delta. It pays for jobs that are charged by an approximation, which may fail with probability d.
Under `gdp_rdp` each such job uses the d that it needs. Under `rdp` a slack is optional. It is subtracted from
delta in the B_k, d is slack / 16, and the last coordinate counts such jobs up to 16.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache

from accounting import thresholds
from accounting.charges import APPROXIMATIONS, CHARGE_LIMIT_UNITS, UNIT, Cost, EarlierPlan
from accounting.currencies import CURRENCIES, FilterParameters
from accounting.errors import OutOfRange
from accounting.plan import AbstractComposition
from accounting.privacy import EPSILON_RANGE, Privacy
from accounting.thresholds import ORDER_RATIOS, SMALLEST_ORDER, Kind

MOST_ORDERS = 3
_DEFAULT_SLACK_SHARE = 1 / 16  # of delta, under `gdp_rdp`, and of the cap below
_SLACK_EPSILON_RATIO = 0.01  # caps the default slack at a sixteenth of this share of epsilon
_PORTABLE_BITS = 30  # two platforms' charges agree to 2^-30, relatively
_APPROXIMATION_BITS = 10  # approximations only to 2^-10: another last digit may end the loss one grid cell further


@dataclass(frozen=True, slots=True)
class Filter(FilterParameters):
    """The admission rule of one dataset for an overall (epsilon, delta), under either relation.

    Make one with `Filter.open`, or read one back with `accounting.records.filters`.

    Reference: Feldman and Zrnic 2021 (rdp at one order; the union bound over coordinates is ours); Smith and
    Thakurta 2022 (gdp); Rogers, Roth, Ullman and Vadhan 2016 (pure); docs/spec 9 and 21.
    """

    @staticmethod
    def open(kind: Kind, privacy: Privacy, slack: float = 0.0) -> "Filter":
        """Return the filter of a new dataset. The default slack under `gdp_rdp` is at most a sixteenth of delta.

        Raises
        ------
        OutOfRange
            if delta does not suit the kind (0 for `pure`, positive otherwise), the slack does not (at most delta / 2,
            and only for `rdp` and `gdp_rdp`), or no threshold would be positive.
        """
        if kind == "gdp_rdp" and slack == 0.0:
            slack = min(privacy.delta, privacy.epsilon * _SLACK_EPSILON_RATIO) * _DEFAULT_SLACK_SHARE
        if kind not in ORDER_RATIOS or privacy.is_pure:
            return filter_with(kind, privacy, (), (), slack)
        delta = thresholds.delta_without_slack(kind, privacy, slack)
        orders = thresholds.orders(kind, privacy.epsilon, delta, delta if kind == "rdp" else privacy.delta)
        return filter_with(kind, privacy, orders, thresholds.weights(kind, len(orders)), slack)

    @property
    def zero_cost(self) -> Cost:
        """The empty sum of charges."""
        return (0,) * len(self.thresholds)

    def raised(self, privacy: Privacy) -> "Filter":
        """Return the filter of a larger guarantee, with the same orders, weights and slack.

        Raises `OutOfRange` unless the guarantee is larger in epsilon, in delta, or in both.
        """
        is_lower = privacy.epsilon < self.privacy.epsilon or privacy.delta < self.privacy.delta
        larger = self if is_lower else filter_with(self.kind, privacy, self.orders, self.weights, self.slack)
        if not larger.is_raise_of(self):
            raise OutOfRange("a budget may only grow. Raise epsilon, delta or both, and lower neither")
        return larger

    def is_raise_of(self, previous: "Filter") -> bool:
        """Return whether this filter has a larger guarantee, and all that is fixed before any answer is unchanged."""
        fixed = ("kind", "orders", "weights", "slack")
        if any(getattr(self, name) != getattr(previous, name) for name in fixed) or self.privacy == previous.privacy:
            return False
        new = (self.privacy.epsilon, self.privacy.delta, *self.thresholds)
        old = (previous.privacy.epsilon, previous.privacy.delta, *previous.thresholds)
        return all(a >= b for a, b in zip(new, old, strict=True))

    @property
    def most_slack(self) -> int:
        """The largest slack that one job may charge, in units of the slack's coordinate."""
        return CURRENCIES[self.kind].most_slack_per_job

    def cost(self, plan: AbstractComposition) -> Cost:
        """Return the plan's charge: at least its true cost, and at least 1 in every coordinate except the slack's.

        Raises `FilterMismatch` if the plan has no curve in this currency, and `BudgetExhausted` if the charge is
        infinite or 2^62 units or more, which no budget of this service could hold.
        """
        return CURRENCIES[self.kind].cost(self, plan)

    def pays(self, paid: Cost, plan: AbstractComposition) -> bool:
        """Return whether a charge covers the plan's, apart from another platform's last digits.

        The plan is charged by an approximation with the slack that was paid, or else without one. Either is made from
        today's losses, or from those of an earlier version. So a stored charge still pays after a loss has become
        smaller. Raises as `cost`.
        """
        for slack in dict.fromkeys((self.vector(paid)[-1] if self.slack else 0, 0)):
            bits = _APPROXIMATION_BITS if slack and self.kind == "gdp_rdp" else _PORTABLE_BITS
            for charged in (plan, EarlierPlan(plan)):
                cost = CURRENCIES[self.kind].cost_at(self, charged, slack)
                if cost is not None and all(c <= p + (p >> bits) + 1 for c, p in zip(cost, paid, strict=True)):
                    return True
        return False

    def admits(self, spent: Cost, cost: Cost) -> bool:
        """Return whether the live charges and this one stay within some threshold, within the slack and below 2^62.

        Raises `OutOfRange` unless both are vectors of this filter: integers in [0, 2^62), one for each threshold.
        """
        total = tuple(a + b for a, b in zip(self.vector(spent), self.vector(cost), strict=True))
        is_within = any(t <= top for t, top in zip(self.curve(total), self.curve(self.thresholds), strict=True))
        is_within_slack = not self.slack or total[-1] <= self.thresholds[-1]
        return max(total) < CHARGE_LIMIT_UNITS and is_within and is_within_slack

    def vector(self, cost: Cost) -> Cost:
        """Return `cost`; `OutOfRange` unless it is a vector of this filter (see `admits`)."""
        are_units = all(type(c) is int and 0 <= c < CHARGE_LIMIT_UNITS for c in cost)
        if len(cost) != len(self.thresholds) or not are_units:
            raise OutOfRange("a charge must be one integer in [0, 2^62) for each threshold of the filter")
        return cost

    def share(self, cost: Cost, spent: Cost) -> float:
        """Return `cost` as a share of the threshold of the coordinate with the largest remainder when `spent` is spent.

        At one `spent`, shares add up to 1: those of all charges in it, and that of what remains.
        """
        tops = self.curve(self.thresholds)
        shares = [c / top for c, top in zip(self.curve(self.vector(spent)), tops, strict=True)]
        widest = shares.index(min(shares))
        return self.vector(cost)[widest] / tops[widest]

    def spent_epsilon(self, spent: Cost) -> float:
        """Return the smallest epsilon whose filter of the same orders and delta would hold these charges, rounded up.

        Under `gdp_rdp` it is what the charges guarantee if they were fixed beforehand, each coordinate with all of
        delta. It is 0 for no charges, and at most the budget's epsilon if a threshold holds them.
        """
        if not any(self.vector(spent)):
            return 0.0
        epsilon = CURRENCIES[self.kind].spent_epsilon(self, spent)
        return min(epsilon, self.privacy.epsilon) if self.admits(self.zero_cost, spent) else epsilon

    def remaining_epsilon(self, spent: Cost) -> float:
        """Return the largest epsilon, at the budget's delta, of one more job that is admitted, rounded down.

        The job is Gaussian and calibrated exactly, or pure under `pure`. Epsilons below the smallest allowed become 0.
        """
        epsilon = CURRENCIES[self.kind].next_epsilon(self, self.remainders(self.vector(spent)))
        return min(epsilon, self.privacy.epsilon) if epsilon >= EPSILON_RANGE[0] else 0.0


@lru_cache(1024)  # each charge and each budget query reads its ledger's filter
def filter_with(
    kind: Kind, privacy: Privacy, orders: tuple[float, ...], weights: tuple[float, ...], slack: float = 0.0
) -> Filter:
    """Return the filter with the thresholds of these parameters; `OutOfRange` if there is no such filter."""
    if (kind == "pure") != privacy.is_pure:
        raise OutOfRange("delta must be 0 under filter 'pure', and positive under any other")
    if len(orders) + (kind == "gdp_rdp") != len(weights) or (kind in ORDER_RATIOS) != bool(orders):
        raise OutOfRange("weights must be one for each order, and one for mu^2 under 'gdp_rdp'")
    if any(a < SMALLEST_ORDER for a in orders) or any(w <= 0 for w in weights) or sum(map(Fraction, weights)) > 1:
        raise OutOfRange("orders must be above 1, weights positive and at most 1 in total")
    thresholds.delta_without_slack(kind, privacy, slack)  # refuses a slack that this kind cannot have
    rule = Filter(kind, privacy, orders, weights, (), slack)
    currency = CURRENCIES[kind]
    tops = currency.thresholds(rule)
    if min(tops) <= 0:
        raise OutOfRange("this budget is too small, because no charge would fit it. Raise epsilon or delta")
    return replace(rule, thresholds=(*tops, currency.slack_threshold) if slack else tops)


__all__ = ["APPROXIMATIONS", "CHARGE_LIMIT_UNITS", "UNIT", "Cost", "Filter", "Kind", "filter_with"]
