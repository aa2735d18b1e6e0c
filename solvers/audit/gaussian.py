"""The attacker of oracles whose answers are all Gaussian, such as moments, counts, scores and curvatures.

For each answer of the attacked run, the same oracle on either dataset states the exact value of that answer. The score
is therefore the log-likelihood ratio of the noise that the code adds, and a new kind of answer needs no attacker.
"""

from typing import Any

from accounting.plan import PlannedQuery
from solvers.data_access.meter import AbstractOracle, Meter
from solvers.data_access.with_moments import AbstractWithMoments
from solvers.problem import Vector


class RecordingMeter(Meter):
    """A meter of the attacked run, which keeps its last answer."""

    __slots__ = ("last_answer",)
    last_answer: Vector

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        self.last_answer = super().perturb(planned, value, bound)
        return self.last_answer


class ExactMeter(Meter):
    """A meter that counts nothing, keeps each exact value and its noise std, and returns the attacked run's answer."""

    __slots__ = ("_recording", "noise_std", "value")

    def __init__(self, recording: RecordingMeter) -> None:
        super().__init__(recording.plan, recording.noise, relation=recording.plan.relation)
        self._recording = recording

    def take(self, query: str, mechanism: Any, count: int = 1) -> PlannedQuery:  # noqa: ARG002
        return self.look(query, mechanism)

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        self.value = value
        self.noise_std = planned.mechanism.std(planned.noise_multiplier, bound, len(value))
        return self._recording.last_answer


class GaussianAttacker:
    """An oracle that returns the answers of the real one, and scores each by its density on either dataset.

    Parameters
    ----------
    oracle : the oracle of the attacked run
    first, second : oracles of the same kind and plan on the two datasets, which answer nothing else
    """

    def __init__(self, oracle: AbstractOracle, first: AbstractOracle, second: AbstractOracle) -> None:
        self._oracle, self._exact, self._own_score = oracle, (first, second), 0.0
        plan = oracle._meter.plan
        self._recording = oracle._meter = RecordingMeter(plan, oracle._meter.noise, relation=plan.relation)
        self._first = first._meter = ExactMeter(self._recording)
        self._second = second._meter = ExactMeter(self._recording)
        inner = [each.moments for each in (oracle, first, second) if isinstance(each, AbstractWithMoments)]
        self._moments = GaussianAttacker(*inner) if inner else None

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers on the first dataset over that on the second."""
        return self._own_score + (0.0 if self._moments is None else self._moments.score)

    def __getattr__(self, name: str) -> Any:
        """Return a fact of the real oracle, or a request to it that also scores the answer."""
        if name == "moments":
            return self._moments
        fact = getattr(self._oracle, name)
        if name == "planned" or not callable(fact):
            return fact

        def request(*arguments: Any) -> Any:
            answer = fact(*arguments)
            for exact in self._exact:
                getattr(exact, name)(*arguments)
            self._score_last_answer()
            return answer

        return request

    def _score_last_answer(self) -> None:
        """Add the logarithm of the density N(first value, std) over N(second value, std) at the last answer."""
        first, second = self._first.value, self._second.value
        difference = (self._recording.last_answer - (first + second) / 2) @ (first - second)
        self._own_score += float(difference) / self._first.noise_std**2
