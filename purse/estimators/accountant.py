"""One budget for the fits of many estimators on the same people's data."""

import os
from threading import Lock
from typing import Any, Final, NoReturn

from accounting.errors import BudgetExhausted
from accounting.filter import Filter, Kind
from accounting.plan import ReleasePlan
from accounting.privacy import Privacy, Relation, Unit
from accounting.records.chain import GENESIS
from accounting.records.events import Charged
from accounting.records.ledger import LedgerState, remaining_epsilon, spent_epsilon, step

ROW: Final = Unit()


class BudgetAccountant:
    """All fits that share it are together (epsilon, delta)-DP, however each was chosen from the results before it.

    Between the neighbors of its first fit: those that differ in a row or in a person, by the same relation. A fit for
    others is refused, since promises between different neighbors do not add up.

    A fit is charged before a value of its data is read, and stays charged whatever becomes of it; one that does not
    fit is refused. The filter is the service's (docs/spec 9 and 21), and so is the rule of the empty ledger: a first
    fit within the budget is admitted even where its curve is not, and takes all of it.

    A copy is the accountant itself, so that scikit-learn's clones share it. It is of one process and of as long as that
    lives: a fork of the process has it, and is refused. What must be remembered longer, or shared by processes, is the
    service's.

    Parameters
    ----------
    epsilon, delta : what all fits together may cost; delta is 0 under filter "pure", and positive else
    filter : "gdp_rdp", "rdp", "gdp" or "pure"

    Raises
    ------
    OutOfRange
        if there is no such budget.
    """

    def __init__(self, epsilon: float, delta: float, filter: Kind = "gdp_rdp") -> None:
        rule = Filter.open(filter, Privacy(epsilon, delta))
        self._state = LedgerState(rule, rule.zero_cost, 0, False, 0, GENESIS)
        self._lock, self._process = Lock(), os.getpid()
        self._neighbors: tuple[Relation, str] | None = None

    @property
    def filter(self) -> Filter:
        """The admission rule, fixed beforehand."""
        return self._state.filter

    @property
    def fits(self) -> int:
        """How many are charged."""
        return self._state.charges

    @property
    def spent(self) -> float:
        """The epsilon, at the budget's delta, that the fits so far guarantee together, rounded up; 0 for none."""
        return spent_epsilon(self._state)

    @property
    def remaining(self) -> float:
        """The largest epsilon, at the budget's delta, of one more Gaussian fit (pure under "pure"), rounded down."""
        return remaining_epsilon(self._state)

    def charge(self, planned: ReleasePlan, guarantee: Privacy, unit: Unit = ROW) -> None:
        """Adds a fit's cost, or refuses it and adds nothing; no two threads are admitted where one fits.

        Parameters
        ----------
        planned : what the fit will ask, with its noise
        guarantee : the (epsilon, delta) that it was calibrated to
        unit : what its neighbors differ in

        Raises
        ------
        BudgetExhausted
            if it does not fit.
        FilterMismatch
            if the plan has no price in the filter's currency.
        ValueError
            if it is between other neighbors than the fits before it, or asked for in another process.
        """
        if os.getpid() != self._process:
            raise ValueError(
                "a BudgetAccountant is of the process that made it: in a fork of that, each would be a budget of its "
                "own. Fit in one process (n_jobs=1, or joblib's threads)"
            )
        neighbors = (planned.plan.relation, unit.name)
        try:
            cost = self.filter.cost(planned.plan)
            with self._lock:
                charge = Charged(f"fit_{self._state.charges + 1}", cost, guarantee)
                if self._neighbors is not None and self._neighbors != neighbors:
                    relation, name = self._neighbors
                    raise ValueError(f"this budget is of neighbors that differ in one {name}, by {relation}")
                after = step(self._state, charge)
                self._neighbors = neighbors  # first: an interrupt in between leaves a budget that is too strict
                self._state = after
        except BudgetExhausted:
            left = f"epsilon {self.remaining:.4g} at delta {self.filter.privacy.delta:.3g}"
            raise BudgetExhausted(f"the fit was refused and no data was read: about {left} remains") from None

    def __copy__(self) -> "BudgetAccountant":
        return self

    def __deepcopy__(self, memo: Any) -> "BudgetAccountant":
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a BudgetAccountant cannot be pickled: each copy would be a budget of its own. Fit in one process "
            "(n_jobs=1, or joblib's threads); set the estimator's accountant to None before you store it"
        )

    def __repr__(self) -> str:
        budget = self.filter.privacy
        kind = self.filter.kind
        return f"BudgetAccountant({budget.epsilon:g}, {budget.delta:g}, {kind!r}; {self.spent:.4g} spent)"
