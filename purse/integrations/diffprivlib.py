"""diffprivlib: a `BudgetAccountant` that records every epsilon in a session before diffprivlib computes the answer.

    accountant = reserve(client, "people", epsilons=[0.5, 0.2])
    with accountant.session:
        model = diffprivlib.models.LogisticRegression(epsilon=0.5, data_norm=5.0, accountant=accountant).fit(X, y)
        average = diffprivlib.tools.mean(ages, bounds=(0, 100), epsilon=0.2, accountant=accountant)

diffprivlib states an epsilon for each answer, but not which neighbors it protects: its histograms count one row that is
added or removed, and its means and models replace one row. The adapter therefore charges k epsilon between neighbors of
the dataset, where k is the number of rows by which they differ. k is 1 under zero_out and 2 under replace_one, times
`max_rows` of a person (docs/proofs/integrations.md).

diffprivlib's noise is in floating point, and its statement is taken as it is. The adapter refuses delta above 0, which
no event of a session can state. It refuses LinearRegression with an intercept, which spends more than its epsilon, and
KMeans, whose `labels_` and `inertia_` are exact. It refuses noise that can be drawn again: a chosen `random_state`,
RandomForestClassifier, and LogisticRegression in several processes. It makes diffprivlib's PrivacyLeakWarning an error.
`classes_` and `n_iter_` of a fitted model are exact as well, and are not part of the guarantee.
"""

import sys
import warnings
from collections.abc import Mapping, Sequence
from secrets import SystemRandom
from typing import Any, Self

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.integrations.recording import (
    Reservation,
    UnsupportedMechanism,
    changed_rows,
    described,
    pure_event,
    record,
)
from purse.wire.datasets import Dataset

with needing("purse.integrations.diffprivlib", "diffprivlib"):
    from diffprivlib import BudgetAccountant
    from diffprivlib.models import KMeans, LinearRegression, LogisticRegression, RandomForestClassifier
    from diffprivlib.models.logistic_regression import Parallel
    from diffprivlib.utils import PrivacyLeakWarning, check_random_state


class SessionAccountant(BudgetAccountant):  # type: ignore[misc]
    """A `BudgetAccountant` of diffprivlib that records in a session.

    diffprivlib calls `check` before it reads data, and `spend` after it has computed the answer. `check` records, so a
    call of it by your own code uses up a planned answer. A copy of the accountant is the accountant itself, because
    scikit-learn copies the parameters of a model that it clones.

    Parameters
    ----------
    session : a handle whose plan has the events of `pure_event`, as `reserve` opens it
    dataset : the session's dataset, as `client.datasets.get` returns it
    """

    def __init__(self, session: SessionHandle, dataset: Dataset) -> None:
        self.session = session
        self._dataset = dataset
        self._unspent: list[float] = []
        self._is_spending = False
        super().__init__()

    def check(self, epsilon: float, delta: float) -> bool:
        """Record an answer that is about to be computed.

        Raises
        ------
        UnsupportedMechanism
            for a delta above 0, for noise that can be drawn again, and for a model that spends more than it states.
        NotCovered, ProblemError
            if the plan has no such answer left; then the answer must not be computed.
        """
        super().check(epsilon, delta)
        if not self._is_spending:
            of_caller = sys._getframe(1).f_locals
            _refuse_more_than_stated(of_caller.get("self"))
            _refuse_predictable(of_caller)
            self._record(epsilon, delta)
        return True

    def spend(self, epsilon: float, delta: float) -> Self:
        """Add an answer to diffprivlib's own list, and record it unless `check` has recorded it."""
        if delta == 0 and epsilon in self._unspent:
            self._unspent.remove(epsilon)
        else:
            self._record(epsilon, delta)
            self._unspent.remove(epsilon)
        self._is_spending = True
        try:
            super().spend(epsilon, delta)
        finally:
            self._is_spending = False
        return self

    def _record(self, epsilon: float, delta: float) -> None:
        if delta != 0:
            raise UnsupportedMechanism(
                f"An answer with delta {delta} is not supported in a session, because no filter can charge an answer "
                "by its epsilon and delta alone. Use a mechanism of diffprivlib with delta 0"
            )
        warnings.simplefilter("error", PrivacyLeakWarning)
        record(self.session, pure_event(epsilon, changed_rows(self._dataset)))
        self._unspent.append(epsilon)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _memo: object) -> Self:
        return self


def _refuse_more_than_stated(model: object) -> None:
    """Raise `UnsupportedMechanism` for a model of diffprivlib 0.6.6 that reveals more than its epsilon states."""
    if isinstance(model, LinearRegression) and model.fit_intercept:
        raise UnsupportedMechanism(
            "LinearRegression with an intercept is not supported in a session, because diffprivlib spends "
            "epsilon / (features + 1) on the mean of y beyond the stated epsilon. Use fit_intercept=False"
        )
    if isinstance(model, KMeans):
        raise UnsupportedMechanism(
            "KMeans is not supported in a session, because its labels_ and inertia_ are exact functions of the data"
        )


def _refuse_predictable(of_caller: Mapping[str, Any]) -> None:
    """Raise `UnsupportedMechanism` if the noise of diffprivlib 0.6.6 can be drawn again.

    Parameters
    ----------
    of_caller : local variables of the tool, or of the method of a model, that calls `check`
    """
    model = of_caller.get("self")
    if isinstance(model, RandomForestClassifier):
        raise UnsupportedMechanism(
            "RandomForestClassifier is not supported in a session, because its trees draw their noise from seeds that "
            "the fitted forest lists. Use DecisionTreeClassifier"
        )
    if isinstance(model, LogisticRegression) and Parallel(n_jobs=model.n_jobs).n_jobs != 1:
        raise UnsupportedMechanism(
            "LogisticRegression with several jobs is not supported in a session, because all of them draw the same "
            "noise. Use n_jobs=1 and no parallel context of joblib"
        )
    for chosen in (getattr(model, "random_state", None), of_caller.get("random_state")):
        # This is how mechanisms read it: without a choice, they take the generator of the operating system.
        if not isinstance(check_random_state(chosen, True), SystemRandom):
            raise UnsupportedMechanism(
                "random_state is not supported in a session, because a chosen seed makes the noise predictable. "
                "Leave it out"
            )


def reserve(
    client: Client,
    dataset: Dataset | str,
    *,
    epsilons: Sequence[float],
    title: str | None = None,
    lifetime: int | None = None,
) -> SessionAccountant:
    """Reserve budget for planned answers of diffprivlib, and return their accountant.

    Parameters
    ----------
    epsilons : epsilon of each planned answer, as diffprivlib states it; an array of m answers has m times epsilon / m
    title : title of the session; by default the library, its version and the factor of the neighbors
    lifetime : seconds after which the session expires and its whole plan stays charged

    Raises
    ------
    UnsupportedMechanism
        if an epsilon is not a positive finite number.
    ProblemError
        with the code `budget_exhausted` if the plan does not fit the budget.
    """
    declared = described(client, dataset)
    changes = changed_rows(declared)
    reservation = Reservation(client, "diffprivlib", f"{changes} times its stated epsilon", title, lifetime)
    events = [pure_event(epsilon, changes) for epsilon in epsilons]
    return SessionAccountant(reservation.open(declared, events=events), declared)
