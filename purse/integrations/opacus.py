"""Opacus: a `PrivacyEngine` whose optimizer records every step in a session before it draws the step's noise.

    engine = reserve(client, "people", data_loader=loader, epochs=3, privacy={"epsilon": 1.0})
    with engine.session:
        model, optimizer, loader = engine.make_private(
            module=model, optimizer=optimizer, data_loader=loader, max_grad_norm=1.0
        )

Each step is one PoissonSampledDpEvent(GaussianDpEvent). Opacus proves its guarantee for one example that is added or
removed. Its noise multiplier is the noise std over the clipping bound of one example, which is the service's per-record
bound under either relation (docs/proofs/relation.md). Under replace_one the service charges twice that distance.

Opacus adds floating-point noise of PyTorch's generator, and clips in floating point. The event is that of exact
Gaussian noise, so attacks on low bits of the noise are outside of the guarantee. `secure_mode` uses Opacus's own
protection. Distributed training, adaptive and per-layer clipping, fixed batches and accumulated gradients are refused,
because their steps are not this event.
"""

import math
from collections.abc import Callable, Mapping, Sized
from typing import Any, Final

import numpy as np

from purse.client import Client, SessionHandle
from purse.extras import needing
from purse.integrations.recording import (
    Reservation,
    UnsupportedMechanism,
    described,
    planned_epsilon,
    record,
    repeated,
)
from purse.integrations.recording import noise_multiplier as planned_multiplier
from purse.wire.datasets import Dataset

with needing("purse.integrations.opacus", "opacus"):
    from opacus import PrivacyEngine
    from opacus.accountants import IAccountant
    from opacus.optimizers import DPOptimizer

_GRID: Final = 2**24  # torch.rand draws multiples of 2^-24 in single precision
_MODES: Final = ("hooks", "functorch", "ew")


def sampling_probability(data_loader: Sized) -> float:
    """Return the largest probability with which Opacus puts an example into a batch of this data loader.

    Opacus compares a single-precision uniform number with 1 / len(data_loader). The result is that rate, rounded up to
    the grid of these numbers. For some lengths, Opacus loses one batch to rounding, and then states a larger rate.

    Raises
    ------
    ValueError
        if the data loader has no batch.
    """
    if len(data_loader) == 0:
        raise ValueError("data_loader has no batch, so no step can be planned. Pass a loader of at least one example")
    return _rounded_up(1 / int(1 / (1 / len(data_loader))))


def _rounded_up(rate: float) -> float:
    steps = max(math.ceil(rate * _GRID), math.ceil(float(np.float32(rate)) * _GRID))
    return min(steps / _GRID, 1.0)


def step_event(noise_multiplier: float, sampling_probability: float) -> dict[str, Any]:
    """Return the event of one step of Opacus's optimizer."""
    return {
        "type": "PoissonSampledDpEvent",
        "sampling_probability": sampling_probability,
        "event": {"type": "GaussianDpEvent", "noise_multiplier": noise_multiplier},
    }


class SessionAccountant(IAccountant):  # type: ignore[misc]
    """An accountant of Opacus that records each step in a session, which must have been opened with a plan for it.

    Parameters
    ----------
    session : a handle that `client.sessions.open` returned
    """

    def __init__(self, session: SessionHandle) -> None:
        super().__init__()
        self.session = session

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Record one step; raises `NotCovered` or `ProblemError`, and then no step may happen."""
        record(self.session, step_event(noise_multiplier, _rounded_up(sample_rate)))
        self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float, *_args: Any, **_options: Any) -> float:
        """Return the epsilon of the whole plan at this delta; `ValueError` below the delta of the reservation."""
        return planned_epsilon(self.session, delta)

    def __len__(self) -> int:
        return len(self.history)

    @classmethod
    def mechanism(cls) -> str:
        """Return the name of this accountant in checkpoints."""
        return "privy_purse"


class SessionEngine(PrivacyEngine):  # type: ignore[misc]
    """A `PrivacyEngine` whose steps are recorded in a session before their noise is drawn.

    Parameters
    ----------
    session : a handle whose plan has PoissonSampledDpEvent(GaussianDpEvent), as `reserve` opens it
    secure_mode : whether Opacus draws noise and batches from a cryptographic generator; needs torchcsprng
    """

    def __init__(self, session: SessionHandle, *, secure_mode: bool = False) -> None:
        super().__init__(secure_mode=secure_mode)
        self.session = session
        self.accountant = SessionAccountant(session)

    def make_private(self, *, noise_multiplier: float | None = None, **options: Any) -> Any:
        """Return the private module, optimizer and data loader, as `PrivacyEngine.make_private`.

        Parameters
        ----------
        noise_multiplier : that of the plan if None
        options : those of `PrivacyEngine.make_private`

        Raises
        ------
        UnsupportedMechanism
            for an option with which a step is not the planned event.
        """
        _refuse_other_steps(options)
        if noise_multiplier is None:
            noise_multiplier = planned_multiplier(self.session.plan[0].event)
        private = super().make_private(noise_multiplier=noise_multiplier, **options)
        _record_before_noise(private[1])
        return private

    def make_private_with_epsilon(self, **_options: Any) -> Any:
        """Raise an error, because the session's plan decides the noise."""
        raise UnsupportedMechanism("reserve(privacy=...) already chose the noise for the target. Call make_private")


def _refuse_other_steps(options: Mapping[str, Any]) -> None:
    """Raise `UnsupportedMechanism` for options of `make_private` that change the event of a step."""
    refused = {
        "poisson_sampling": (not options.get("poisson_sampling", True), "fixed batches are not drawn independently"),
        "clipping": (options.get("clipping", "flat") != "flat", "only flat clipping makes a step one Gaussian answer"),
        "grad_sample_mode": (
            options.get("grad_sample_mode", "hooks") not in _MODES,
            "only hooks, functorch and ew are tested",
        ),
        "noise_generator": (options.get("noise_generator") is not None, "a chosen seed makes the noise predictable"),
    }
    for name, (is_refused, reason) in refused.items():
        if is_refused:
            raise UnsupportedMechanism(f"{name} is not supported in a session, because {reason}. Leave it out")


def _record_before_noise(optimizer: Any) -> None:
    """Move the accountant's hook from behind the noise to before it."""
    if type(optimizer) is not DPOptimizer:
        raise UnsupportedMechanism(
            f"{type(optimizer).__name__} is not supported in a session, because every process would record the same "
            "step. Train in one process"
        )
    add_noise: Callable[[], None] = optimizer.add_noise
    hook: Callable[[Any], None] = optimizer.step_hook

    def recorded() -> None:
        hook(optimizer)
        add_noise()

    optimizer.attach_step_hook(lambda _optimizer: None)
    optimizer.add_noise = recorded


def reserve(
    client: Client,
    dataset: Dataset | str,
    *,
    data_loader: Sized,
    epochs: int = 1,
    privacy: Mapping[str, float] | None = None,
    noise_multiplier: float | None = None,
    one_example_per_person: bool = False,
    title: str | None = None,
    lifetime: int | None = None,
    secure_mode: bool = False,
) -> SessionEngine:
    """Reserve budget for a training run, and return its engine.

    Parameters
    ----------
    data_loader : the loader that `make_private` will be given; its length is the number of steps of an epoch
    epochs : planned passes over the data loader; a pass that is not run is refunded when the session is closed
    privacy : epsilon, and delta if it is not the dataset's; the server chooses the noise for it
    noise_multiplier : noise std over max_grad_norm, in place of `privacy`
    one_example_per_person : true if the data loader has at most one example of each person
    title : title of the session; by default the library, its version and its kind of noise
    lifetime : seconds after which the session expires and its whole plan stays charged

    Raises
    ------
    UnsupportedMechanism
        if neighbors of the dataset differ in more than one example.
    ValueError
        unless exactly one of privacy and noise_multiplier is given, and the data loader has a batch.
    ProblemError
        with the code `budget_exhausted` if the plan does not fit the budget.
    """
    declared = described(client, dataset)
    if declared.unit.slots > 1 and not one_example_per_person:
        raise UnsupportedMechanism(
            f"A person of {declared.name} has up to {declared.unit.slots} rows, but Opacus bounds one example. "
            "Make one example of each person, and pass one_example_per_person=True"
        )
    if (privacy is None) == (noise_multiplier is None):
        raise ValueError("pass either privacy or noise_multiplier, and not both, because each decides the noise")
    rate = sampling_probability(data_loader)
    steps = epochs * len(data_loader)
    if noise_multiplier is None:
        plan: dict[str, Any] = {"privacy": privacy, "steps": steps, "sampling_probability": rate}
    else:
        plan = {"events": [repeated(step_event(noise_multiplier, rate), steps)]}
    reservation = Reservation(client, "opacus", "floating-point Gaussian noise", title, lifetime)
    return SessionEngine(reservation.open(declared, **plan), secure_mode=secure_mode)
