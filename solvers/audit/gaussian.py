"""The attacker of oracles whose answers are all Gaussian, such as moments, counts, scores and curvatures.

For each answer of the attacked run, the same oracle on either dataset computes the exact value of that answer. The
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
    """A meter of the attacked run, which stores the answers to one request."""

    __slots__ = ("answers",)

    def begin(self) -> None:
        """Forget the answers to the request before."""
        self.answers: list[Vector] = []

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        answer = super().perturb(planned, value, bound)
        self.answers.append(answer.copy())
        return answer


class ExactMeter(Meter):
    """A meter that counts nothing, stores exact values and noise stds, and returns the attacked run's answers."""

    __slots__ = ("_recording", "noise_stds", "values")

    def __init__(self, recording: RecordingMeter) -> None:
        super().__init__(recording.plan, recording.noise, relation=recording.plan.relation)
        self._recording = recording

    def begin(self) -> None:
        """Forget the values of the request before."""
        self.values: list[Vector] = []
        self.noise_stds: list[float] = []

    def take(self, query: str, mechanism: Any, count: int = 1) -> PlannedQuery:  # noqa: ARG002
        return self.look(query, mechanism)

    def perturb(self, planned: PlannedQuery, value: Vector, bound: float) -> Vector:
        self.values.append(value)
        self.noise_stds.append(planned.mechanism.std(planned.noise_multiplier, bound, len(value)))
        return self._recording.answers[len(self.values) - 1].copy()


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
        """Return a fact of the real oracle, or a request to it that also scores the answers."""
        if name == "moments":
            return self._moments
        fact = getattr(self._oracle, name)
        if name == "planned":
            return fact
        if not callable(fact):
            self._score_result(fact, *(getattr(exact, name) for exact in self._exact))
            return fact

        def request(*arguments: Any) -> Any:
            for meter in (self._recording, self._first, self._second):
                meter.begin()
            result = fact(*arguments)
            on_either = [getattr(exact, name)(*arguments) for exact in self._exact]
            self._score_answers()
            self._score_result(result, *on_either)
            return result

        return request

    def _score_answers(self) -> None:
        """Add the logarithm of the density N(first value, std) over N(second value, std) at each answer."""
        values = zip(self._first.values, self._second.values, self._first.noise_stds, strict=True)
        for answer, (first, second, std) in zip(self._recording.answers, values, strict=True):
            self._own_score += float((answer - (first + second) / 2) @ (first - second)) / std**2

    def _score_result(self, result: Any, first: Any, second: Any) -> None:
        """Add a decisive score if only one dataset explains the result, given the same noisy answers."""
        self._own_score += _CERTAIN * (np.array_equal(result, first) - float(np.array_equal(result, second)))
