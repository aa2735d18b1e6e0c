"""The attacker of oracles whose answers are all Gaussian, such as moments, counts, scores and curvatures.

For each answer of the attacked run, the same oracle on the other dataset computes the exact value of that answer. The
score is therefore the log-likelihood ratio of the noise that the code adds, and a new kind of answer needs no attacker.
From the same noisy answer, the oracles of both datasets must compute the same result. Otherwise the result would reveal
more than the noisy answer, and the attacker detects that.
"""

from typing import Any

import numpy as np

from accounting.plan import PlannedQuery
from solvers.data_access.meter import AbstractOracle, Meter
from solvers.data_access.with_moments import AbstractWithMoments
from solvers.problem import Vector

_CERTAIN = 1e9  # the score of a request whose result only one of the datasets explains


class RecordingMeter(Meter):
    """A meter of the attacked run, which stores exact values, noise stds and answers of one request."""

    __slots__ = ("answers", "noise_stds", "values")

    def begin(self) -> None:
        """Forget the request before."""
        self.values: list[Vector] = []
        self.noise_stds: list[float] = []
        self.answers: list[Vector] = []

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        answer = super().perturb(planned, value, bound)
        self.values.append(value)
        self.noise_stds.append(planned.mechanism.std(planned.noise_multiplier, bound, len(value)))
        self.answers.append(answer.copy())
        return answer


class ExactMeter(Meter):
    """A meter that counts nothing, stores exact values, and returns the attacked run's answers."""

    __slots__ = ("_recording", "values")

    def __init__(self, recording: RecordingMeter) -> None:
        super().__init__(recording.plan, recording.noise, relation=recording.plan.relation)
        self._recording = recording

    def begin(self) -> None:
        """Forget the values of the request before."""
        self.values: list[Vector] = []

    def take(self, query: str, mechanism: Any, count: int = 1) -> PlannedQuery:  # noqa: ARG002
        return self.look(query, mechanism)

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:  # noqa: ARG002
        self.values.append(value)
        return self._recording.answers[len(self.values) - 1].copy()


class GaussianAttacker:
    """An oracle that returns the answers of the real one, and scores each by its density on either dataset.

    Parameters
    ----------
    index : the dataset of the attacked run, 0 for the first or 1 for the second
    oracle : the oracle of the attacked run
    neighbor : an oracle of the same kind and plan on the other dataset, which answers nothing else
    """

    def __init__(self, index: int, oracle: AbstractOracle, neighbor: AbstractOracle) -> None:
        self._oracle, self._neighbor, self._own_score = oracle, neighbor, 0.0
        self._sign = 1.0 if index == 0 else -1.0
        plan = oracle._meter.plan
        self._recording = oracle._meter = RecordingMeter(plan, oracle._meter.noise, relation=plan.relation)
        self._exact = neighbor._meter = ExactMeter(self._recording)
        self._moments = None
        if isinstance(oracle, AbstractWithMoments) and isinstance(neighbor, AbstractWithMoments):
            self._moments = GaussianAttacker(index, oracle.moments, neighbor.moments)

    @property
    def score(self) -> float:
        """Logarithm of the density of all answers on the first dataset over that on the second."""
        return self._own_score + (0.0 if self._moments is None else self._moments.score)

    def __getattr__(self, name: str) -> Any:
        """Return a fact of the real oracle, or a request to it that also scores the answers."""
        if name == "moments":
            return self._moments
        fact = getattr(self._oracle, name)
        if name == "planned":
            return fact
        if not callable(fact):
            self._score_result(fact, getattr(self._neighbor, name))
            return fact

        def request(*arguments: Any) -> Any:
            self._recording.begin()
            self._exact.begin()
            result = fact(*arguments)
            neighbors_result = getattr(self._neighbor, name)(*arguments)
            self._score_answers()
            self._score_result(result, neighbors_result)
            return result

        return request

    def _score_answers(self) -> None:
        """Add the logarithm of the density of each answer on the first dataset over that on the second."""
        recording = self._recording
        recorded = zip(recording.answers, recording.values, self._exact.values, recording.noise_stds, strict=True)
        for answer, own, neighbors, std in recorded:
            self._own_score += self._sign * float((answer - (own + neighbors) / 2) @ (own - neighbors)) / std**2

    def _score_result(self, result: Any, neighbors: Any) -> None:
        """Add a decisive score if only the run's own dataset explains the result, given the same noisy answers."""
        if not np.array_equal(result, neighbors):
            self._own_score += self._sign * _CERTAIN
