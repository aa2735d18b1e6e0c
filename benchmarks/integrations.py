"""`make integrations`: one budget, spent by a job of this service, Opacus, jax_privacy, OpenDP, diffprivlib, own code.

Everything uses the public interface. Each library trains or counts on this machine, in this process, and reserves its
budget on the server first. The server needs no library, and sees none of its data.
"""

import math
import secrets
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import diffprivlib.models
import jax
import jax.numpy as jnp
import numpy as np
import opendp.prelude as dp
import torch
from jax_privacy import batch_selection, noise_addition
from jax_privacy.experimental import execution_plan
from numpy.typing import NDArray

import purse
from app.demo import data
from app.demo.server import serving
from purse import Client, ProblemError
from purse.integrations import diffprivlib as diffprivlib_sessions
from purse.integrations import dp_accounting, opacus, opendp
from purse.prediction import UnsupportedCategory
from purse.wire.budgets import Budget
from purse.wire.columns import CategoryColumn, NumberColumn

BUDGET: Final = Budget(epsilon=3.0, delta=1e-6)
PRIVACY: Final[Mapping[str, float]] = {
    "job": 0.5,
    "opacus": 1.0,
    "jax": 0.5,
    "opendp": 0.05,
    "diffprivlib": 0.3,
    "own": 0.1,
}
ROW_NORM: Final = math.sqrt(len(data.COLUMNS) - 1)  # each feature is in [-1, 1]
_HIDDEN, _BATCH, _EPOCHS, _EPOCHS_RUN = 16, 256, 4, 3
_JAX_STEPS, _JAX_RATE = 100, 0.02
_HEALTH: Final = ["excellent", "good", "fair", "poor"]


def run() -> dict[str, Any]:
    """Run the script, describe it on stdout, and return its figures."""
    uploaded, tested = data.split(data.rows())
    with tempfile.TemporaryDirectory(prefix="purse-integrations-") as folder, serving(Path(folder)) as (url, token):
        with Client(url, token) as steward:
            file = Path(folder) / "randhie.csv"
            data.write(file, uploaded)
            spec = data.spec(BUDGET).model_copy(update={"neighbors": "zero_out"})
            dataset = steward.datasets.upload(file, spec=spec).id
            alice = steward.tokens.create("alice", "analyst").token
            steward.datasets.grant(dataset, "alice")
        print(f"{len(uploaded):,} rows with the budget epsilon {BUDGET.epsilon:g} at delta {BUDGET.delta:g}")
        with Client(url, alice) as client:
            figures = _spend(client, dataset, uploaded, tested, url, alice)
            figures["refused"] = _one_too_many(client, dataset, uploaded)
            figures["receipts"] = _receipts(client, dataset)
        with Client(url, token) as steward:
            figures["ledger"] = _ledger(steward, dataset)
    return figures


def _spend(
    client: Client, dataset: str, uploaded: Sequence[data.Row], tested: Sequence[data.Row], url: str, token: str
) -> dict[str, Any]:
    """Spend the budget in six ways, and return the accuracy or the answer of each."""
    job = client.jobs.submit(
        dataset=dataset, target=data.TARGET, positive=data.POSITIVE, privacy={"epsilon": PRIVACY["job"]}
    )
    with warnings.catch_warnings(action="ignore", category=UnsupportedCategory):  # their rows count too
        figures: dict[str, Any] = {"job": data.accuracy(job.result(progress=False), tested)}
    print(f"Privy Purse: a model with test accuracy {figures['job']:.1%}")
    with warnings.catch_warnings(action="ignore"):  # Opacus warns that its fast generator is not for production
        figures["opacus"] = _network(client, dataset, _arrays(uploaded), _arrays(tested))
    figures["jax"] = _jax_regression(client, dataset, _arrays(uploaded), _arrays(tested))
    figures["opendp"] = _histogram(client, dataset, [row["health"] for row in uploaded])
    figures["diffprivlib"] = _regression(client, dataset, _arrays(uploaded), _arrays(tested))
    with purse.session(dataset, PRIVACY["own"], title="mean age, own code", url=url, token=token) as session:
        total = session.gaussian(sum(min(float(row["age"]), 67.0) for row in uploaded), sensitivity=67.0)
    figures["own"] = total / len(uploaded)
    print(f"own code: mean age {figures['own']:.1f}")
    return figures


def _network(client: Client, dataset: str, training: "Arrays", testing: "Arrays") -> float:
    """Train a network of one hidden layer with Opacus for fewer epochs than planned; return its test accuracy."""
    loader = _loader(training)
    engine = opacus.reserve(
        client, dataset, data_loader=loader, epochs=_EPOCHS, privacy={"epsilon": PRIVACY["opacus"]}, lifetime=3600
    )
    network = torch.nn.Sequential(
        torch.nn.Linear(len(data.COLUMNS) - 1, _HIDDEN), torch.nn.ReLU(), torch.nn.Linear(_HIDDEN, 2)
    )
    with engine.session:
        model, optimizer, batches = engine.make_private(
            module=network,
            optimizer=torch.optim.SGD(network.parameters(), lr=0.5),
            data_loader=loader,
            max_grad_norm=1.0,
        )
        for _ in range(_EPOCHS_RUN):
            for features, classes in batches:
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(features), classes).backward()
                optimizer.step()
    features, classes = testing
    predicted = model(torch.tensor(features, dtype=torch.float32)).argmax(dim=1).numpy()
    accuracy = float((predicted == classes).mean())
    session = engine.session.session
    steps = f"{session.plan[0].recorded} of {session.plan[0].count} steps"
    print(f"Opacus: a network with test accuracy {accuracy:.1%} after {steps}")
    print(
        f"  {session.reserved.share or 0:.1%} of the budget was reserved, {session.charged.share or 0:.1%} is charged"
    )
    return accuracy


def _jax_regression(client: Client, dataset: str, training: "Arrays", testing: "Arrays") -> float:
    """Return the test accuracy of a logistic regression by jax_privacy, whose noise a session chose."""
    session = client.sessions.open(
        dataset=dataset,
        privacy={"epsilon": PRIVACY["jax"]},
        steps=_JAX_STEPS,
        sampling_probability=_JAX_RATE,
        title="jax_privacy: floating-point Gaussian noise",
    )
    assert session.noise_multiplier is not None
    plan = execution_plan.BandMFExecutionPlanConfig(
        strategy=[1.0],
        iterations=_JAX_STEPS,
        sampling_prob=_JAX_RATE,
        noise_multiplier=session.noise_multiplier,
        epsilon=None,
        delta=None,
    ).plan
    accountant = dp_accounting.SessionAccountant(session, client.datasets.get(dataset))
    features, classes = training
    gradient = plan.clipped_grad(_logistic_loss, batch_argnums=(1, 2))
    key = jax.random.wrap_key_data(np.frombuffer(secrets.token_bytes(8), np.uint32))
    noise = noise_addition.gaussian_privatizer(stddev=session.noise_multiplier * gradient.sensitivity(), prng_key=key)
    clipped = jax.jit(gradient)
    weights = jnp.zeros(features.shape[1])
    state = noise.init(weights)
    with session:
        for drawn in plan.batch_selection_strategy.batch_iterator(len(features)):
            accountant.compose(plan.dp_event.event)
            batch = batch_selection.pad_to_multiple_of(drawn, 2 * _BATCH)
            total = clipped(weights, features[batch], classes[batch], is_padding_example=batch < 0)
            noisy, state = noise.update(total, state)
            weights -= 0.01 * noisy
    accuracy = float(((testing[0] @ np.asarray(weights) > 0) == testing[1]).mean())
    print(f"jax_privacy: a model with test accuracy {accuracy:.1%}")
    return accuracy


def _logistic_loss(weights: Any, rows: Any, classes: Any) -> Any:
    return jnp.mean(jnp.logaddexp(0, (1 - 2 * classes) * (rows @ weights)))


def _histogram(client: Client, dataset: str, values: Sequence[str]) -> list[int]:
    """Return a histogram by OpenDP of the column `health`."""
    dp.enable_features("contrib")
    measurement = (
        (dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance())
        >> dp.t.then_count_by_categories(categories=_HEALTH, null_category=False)
        >> dp.m.then_laplace(scale=1 / PRIVACY["opendp"])
    )
    odometer = opendp.reserve(client, dataset, [measurement])
    with odometer.session:
        counts: list[int] = odometer.invoke(measurement, list(values))
    print(f"OpenDP: {', '.join(f'{name} {count:,}' for name, count in zip(_HEALTH, counts, strict=True))}")
    return counts


def _regression(client: Client, dataset: str, training: "Arrays", testing: "Arrays") -> float:
    """Return the test accuracy of diffprivlib's logistic regression."""
    accountant = diffprivlib_sessions.reserve(client, dataset, epsilons=[PRIVACY["diffprivlib"]])
    with accountant.session:
        model = diffprivlib.models.LogisticRegression(
            epsilon=PRIVACY["diffprivlib"], data_norm=ROW_NORM, C=1e-2, accountant=accountant
        ).fit(*training)
    accuracy = float(model.score(*testing))
    print(f"diffprivlib: a model with test accuracy {accuracy:.1%}")
    return accuracy


def _one_too_many(client: Client, dataset: str, rows: Sequence[data.Row]) -> str:
    """Return the code with which the server refuses another training run."""
    try:
        opacus.reserve(client, dataset, data_loader=_loader(_arrays(rows)), epochs=1, privacy={"epsilon": 2.9})
    except ProblemError as error:
        print(f"one more run at epsilon 2.9: {error.code}")
        return str(error.code)
    raise RuntimeError("a run was admitted beyond the budget")


def _receipts(client: Client, dataset: str) -> list[str]:
    """Verify the receipt of every session, and return what each asserts."""
    titles = []
    for session in client.sessions.list(dataset=dataset, order="asc"):
        receipt = client.sessions.get(session.id).receipt()
        receipt.verify()
        titles.append(str(receipt.facts["title"]))
        print(f"receipt of {titles[-1]}: epsilon {receipt.facts['epsilon']:.3g}, {receipt.facts['asserted']}")
    return titles


def _ledger(steward: Client, dataset: str) -> list[str]:
    """Return the kinds of the ledger's entries, and print the shares of the budget."""
    entries = list(steward.ledger(dataset))
    print(f"ledger: {', '.join(entry.kind for entry in entries)}")
    budget = steward.datasets.budget(dataset)
    print(f"together they guarantee epsilon {budget.spent.epsilon:.3g} at delta {budget.spent.delta:g}")
    return [entry.kind for entry in entries]


Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]


def _arrays(rows: Sequence[data.Row]) -> Arrays:
    """Return the rows as features in [-1, 1], by their declared bounds, and the target as 0 or 1."""
    features = np.array([[_code(column, row[column.name]) for column in data.COLUMNS[1:]] for row in rows])
    return features, np.array([row[data.TARGET] == data.POSITIVE for row in rows], dtype=np.int64)


def _code(column: Any, value: str) -> float:
    if isinstance(column, CategoryColumn):
        position = column.categories.index(value)
        last = len(column.categories) - 1
        return 2 * position / last - 1
    assert isinstance(column, NumberColumn)
    lower = float(column.lower)
    upper = float(column.upper)
    number = float(value) if value else (lower + upper) / 2
    return 2 * (min(max(number, lower), upper) - lower) / (upper - lower) - 1


def _loader(arrays: Arrays) -> Any:
    features, classes = arrays
    rows = torch.utils.data.TensorDataset(torch.tensor(features, dtype=torch.float32), torch.tensor(classes))
    return torch.utils.data.DataLoader(rows, batch_size=_BATCH)


if __name__ == "__main__":
    run()
