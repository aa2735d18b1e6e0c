"""One budget for the fits of many estimators on the same people's data."""

import os
from threading import Lock
from typing import Any, Final

from accounting.errors import BudgetExhausted
from accounting.filter import Filter, Kind
from accounting.plan import ReleasePlan
from accounting.privacy import Privacy, Relation, Unit
from accounting.records import ledger
from accounting.records.chain import GENESIS
from accounting.records.ledger import LedgerState, remaining_epsilon, spent_epsilon

ROW: Final = Unit()
_NO_PROCESS: Final = 0


class BudgetAccountant:
    """A budget: all fits that share it are together (epsilon, delta)-DP, also if a fit depends on earlier results.

    The neighbors are those of the first fit: data that differ in a row or in a person, by the same relation. A fit with
    other neighbors is refused, because guarantees for different neighbors do not add up.

    A fit is charged before it reads any value, and stays charged if it fails. A fit that exceeds the budget is refused.
    The filter is the service's (docs/spec 9 and 21). As in an empty ledger, the first fit may exceed the thresholds of
    the filter if its epsilon and delta are at most the budget's. It then uses the whole budget.

    A copy of the accountant is the accountant itself, so that clones of scikit-learn share it. It admits fits only in
    the process that created it: a forked or unpickled accountant refuses every fit. Use the service for a budget that
    outlives a process or that processes share.

    Parameters
    ----------
    epsilon, delta : the budget of all fits together; delta is 0 for the filter "pure" and positive otherwise
    filter : "gdp_rdp", "rdp", "gdp" or "pure"

    Raises
    ------
    OutOfRange
        if there is no such budget.
    """

    def __init__(self, epsilon: float, delta: float, filter: Kind = "gdp_rdp") -> None:
        rule = Filter.open(filter, Privacy(epsilon, delta))
        self._state = LedgerState(rule, rule.zero_cost, 0, False, 0, GENESIS)
        self._lock = Lock()
        self._process = os.getpid()
        self._neighbors: tuple[Relation, str] | None = None

    @property
    def filter(self) -> Filter:
        """The rule that admits fits."""
        return self._state.filter

    @property
    def fits(self) -> int:
        """Number of charged fits."""
        return self._state.charges

    @property
    def spent(self) -> float:
        """The epsilon, at the budget's delta, that all fits so far guarantee together; rounded up, 0 without a fit."""
        return spent_epsilon(self._state)

    @property
    def remaining(self) -> float:
        """Largest epsilon, at the budget's delta, of one more Gaussian fit (pure under "pure"); rounded down."""
        return remaining_epsilon(self._state)

    def charge(self, planned: ReleasePlan, guarantee: Privacy, unit: Unit = ROW) -> None:
        """Add a fit's cost, or refuse the fit and add nothing. Threads are charged one after the other.

        Parameters
        ----------
        planned : the fit's queries with their noise
        guarantee : the (epsilon, delta) that the fit was calibrated to
        unit : what neighbors differ in

        Raises
        ------
        BudgetExhausted
            if the fit exceeds the budget.
        FilterMismatch
            if the filter cannot charge the plan.
        ValueError
            if the fit has other neighbors than earlier ones, or is made in another process.
        """
        if os.getpid() != self._process:
            raise ValueError(
                "a BudgetAccountant admits fits only in the process that created it, because each copy would be a "
                "budget of its own. Fit in one process (n_jobs=1, or joblib's threads), or give a stored estimator "
                "another accountant"
            )
        neighbors = (planned.plan.relation, unit.name)
        try:
            cost = self.filter.cost(planned.plan)
            with self._lock:
                if self._neighbors is not None and self._neighbors != neighbors:
                    relation, name = self._neighbors
                    raise ValueError(
                        f"earlier fits of this budget have neighbors that differ in one {name}, by {relation}, and "
                        "guarantees for different neighbors do not add up. Use the same neighbors, or another budget"
                    )
                state = ledger.charge(self._state, cost, guarantee)
                self._neighbors = neighbors  # first: an interrupt in between leaves a budget that is too strict
                self._state = state
        except BudgetExhausted:
            remaining = f"epsilon {self.remaining:.4g} at delta {self.filter.privacy.delta:.3g}"
            raise BudgetExhausted(
                f"the fit was refused and no data was read: about {remaining} remains. Fit with a smaller epsilon"
            ) from None

    def __copy__(self) -> "BudgetAccountant":
        return self

    def __deepcopy__(self, memo: Any) -> "BudgetAccountant":
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {"_state": self._state, "_neighbors": self._neighbors, "_process": _NO_PROCESS}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=Lock())

    def __repr__(self) -> str:
        budget = self.filter.privacy
        kind = self.filter.kind
        return f"BudgetAccountant({budget.epsilon:g}, {budget.delta:g}, {kind!r}; {self.spent:.4g} spent)"
