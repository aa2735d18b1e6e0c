"""Training with jax_privacy's own clipping, batches and noise, which a session plans and records."""

import math
from typing import Any

import numpy as np
import pytest

from purse import Client, ProblemError

pytest.importorskip("jax_privacy", reason="jax_privacy is not installed: run `make integrations`")

import jax
import jax.numpy as jnp
from jax_privacy import batch_selection, noise_addition
from jax_privacy.experimental import execution_plan

from purse.integrations import dp_accounting

STEPS, STEPS_RUN, RATE = 60, 40, 0.05
SPEC = {
    "name": "jax",
    "data": "elsewhere",
    "rows": 2000,
    "neighbors": "zero_out",
    "budget": {"epsilon": 2.0, "delta": 1e-6},
}
ROWS = np.random.default_rng(1).uniform(-1, 1, (2000, 3))
CLASSES = ROWS @ [1.0, -2.0, 0.5] > 0


def loss(weights: Any, rows: Any, classes: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0, (1 - 2 * classes) * (rows @ weights)))


def plan_of(noise_multiplier: float | None) -> Any:
    config = execution_plan.BandMFExecutionPlanConfig(
        strategy=[1.0],
        iterations=STEPS,
        sampling_prob=RATE,
        noise_multiplier=noise_multiplier,
        epsilon=None,
        delta=None,
        noise_seed=0,
    )
    return config.plan


@pytest.mark.slow
def test_a_model_is_trained_with_the_noise_and_the_batches_of_a_session(client: Client) -> None:
    dataset = client.datasets.declare(spec=SPEC)
    session = client.sessions.open(
        dataset=dataset, privacy={"epsilon": 0.5, "delta": 1e-7}, steps=STEPS, sampling_probability=RATE, title="JAX"
    )
    plan = plan_of(session.noise_multiplier)
    assert dp_accounting.to_events(plan.dp_event, dataset) == [(session.plan[0].event, STEPS)]
    accountant = dp_accounting.SessionAccountant(session, dataset)
    gradient = plan.clipped_grad(loss, batch_argnums=(1, 2))
    clipped = jax.jit(gradient)
    weights = jnp.zeros(3)
    state = plan.noise_addition_transform.init(weights)
    batches = plan.batch_selection_strategy.batch_iterator(len(ROWS), rng=0)
    with session:
        for number in range(STEPS_RUN):
            accountant.compose(plan.dp_event.event)
            assert session.plan[0].recorded == number + 1
            batch = batch_selection.pad_to_multiple_of(next(batches), 256)
            total = clipped(weights, ROWS[batch], CLASSES[batch], is_padding_example=batch < 0)
            noisy, state = plan.noise_addition_transform.update(total, state)
            weights -= 0.02 * noisy
        with pytest.raises(ProblemError) as refused:
            accountant.compose(plan.dp_event.event, STEPS - STEPS_RUN + 1)
    assert refused.value.code == "session_exhausted"
    assert ((ROWS @ np.asarray(weights) > 0) == CLASSES).mean() > 0.9
    assert (session.state, session.plan[0].recorded) == ("closed", STEPS_RUN)
    receipt = session.receipt()
    receipt.verify()
    assert receipt.facts["plan"][0]["recorded"] == STEPS_RUN
    assert [entry.kind for entry in client.ledger(dataset)][-2:] == ["reserved", "settled"]
    reserved, charged = session.session.reserved.share, session.session.charged.share
    assert reserved is not None
    assert charged is not None
    assert 0 < charged < reserved
    assert client.datasets.budget(dataset).share == pytest.approx(charged)


def test_the_noise_and_the_batches_of_a_plan_are_those_of_its_event() -> None:
    plan = plan_of(2.0)
    step = plan.dp_event.event
    bound = plan.clipped_grad(loss, batch_argnums=(1, 2)).sensitivity()
    zeros = jnp.zeros(1_000_000)
    noise, _ = plan.noise_addition_transform.update(zeros, plan.noise_addition_transform.init(zeros))
    assert float(noise.std()) == pytest.approx(step.event.noise_multiplier * bound, rel=0.005)
    drawn = [len(batch) for batch in plan.batch_selection_strategy.batch_iterator(100_000, rng=0)]
    assert len(set(drawn)) > 1
    assert sum(drawn) == pytest.approx(step.sampling_probability * 100_000 * STEPS, rel=0.01)


def test_the_noise_has_few_values_a_bounded_range_and_a_short_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guide states these facts about this version."""
    assert jax.config.jax_default_prng_impl == "threefry2x32"
    draws = 2**22
    noise = np.asarray(jax.random.normal(jax.random.key(0), (draws,)))
    expected = 2**23 * -math.expm1(-draws / 2**23)
    assert len(np.unique(noise)) == pytest.approx(expected, rel=0.001)
    last = np.nextafter(np.float32(1), np.float32(0))
    assert math.sqrt(2) * float(jax.lax.erf_inv(last)) < 5.42
    limits = []

    def randint(*given: int) -> int:
        limits.append(given)
        return 7

    monkeypatch.setattr(np.random, "randint", randint)
    noise_addition.gaussian_privatizer(stddev=1.0)
    assert limits == [(0, 2**31)]
