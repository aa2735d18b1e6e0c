"""The demonstration: one dataset, two private models, their receipts, and a refusal."""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from app.demo import data
from app.demo.data import Row
from app.demo.server import serving
from purse import Client, JobHandle, Model, ProblemError, Receipt
from purse.text import loss
from purse.wire.budgets import Budget, BudgetStatus
from purse.wire.datasets import Dataset
from purse.wire.jobs import Quote

BUDGET: Final = Budget(epsilon=0.9, delta=1e-6)
JOB: Final[dict[str, Any]] = {
    "target": data.TARGET,
    "positive": data.POSITIVE,
    "loss": {"name": "logistic"},
    "regularizer": {"name": "l2", "strength": 1e-3},
    "privacy": {"epsilon": 0.5, "delta": 1e-6},
}
METHODS: Final = ("dp_gd", "dp_svrg")


def run() -> dict[str, Any]:
    """Run the demonstration, describe it on stdout, and return its figures."""
    began = time.monotonic()
    uploaded, tested = data.split(data.rows())
    majority = _majority(tested)
    print("Privy Purse on the RAND Health Insurance Experiment (public domain)")
    print(f"  {len(uploaded) + len(tested):,} rows, each of one person in one year. A row is protected.")
    print(f"  {len(uploaded):,} rows are uploaded. Every fifth row, {len(tested):,} in all, tests the models.")
    print("  The models predict whether the person sees a doctor at least twice in the year.")
    with tempfile.TemporaryDirectory(prefix="purse-demo-") as folder:
        home = Path(folder)
        _title("The server starts: SQLite and two local worker processes")
        with serving(home) as (url, steward_token):
            print(f"  ready on {url} after {time.monotonic() - began:.1f} s")
            with Client(url, steward_token) as steward:
                dataset = _upload(steward, home / "randhie.csv", uploaded)
                analyst_token = steward.tokens.create("alice", "analyst").token
                steward.datasets.grant(dataset.id, "alice")
                print("  alice, an analyst, has a token and a grant for this dataset")
            with Client(url, analyst_token) as analyst:
                models = [_train(analyst, dataset, method, tested, majority) for method in METHODS]
                status = analyst.datasets.budget(dataset.id)
                refusal = _one_too_many(analyst, dataset, status)
        seconds = time.monotonic() - began
        print(f"\nThe server has stopped and its state is removed. {seconds:.0f} s in all.")
    return {
        "dataset": {"rows": len(uploaded), "kept_out": len(tested), "majority": majority},
        "models": models,
        "spent": status.spent.model_dump(),
        "remaining": status.remaining.model_dump(),
        "refusal": refusal,
        "seconds": round(seconds, 1),
    }


def _upload(steward: Client, path: Path, rows: Sequence[Row]) -> Dataset:
    _title("A steward uploads the file under declared bounds and a budget")
    data.write(path, rows)
    dataset = steward.datasets.upload(path, spec=data.spec(BUDGET))
    path.unlink()
    print(f"  {dataset.name} is {dataset.id}: {dataset.rows:,} rows, {len(dataset.columns)} declared columns")
    print(
        f"  budget: epsilon {BUDGET.epsilon:g} at delta {BUDGET.delta:g}, for everything that is ever released about it"
    )
    return dataset


def _train(analyst: Client, dataset: Dataset, method: str, tested: Sequence[Row], majority: float) -> dict[str, Any]:
    _title(f"Alice, an analyst, trains a model with {method}")
    request = {"dataset": dataset.id, "method": {"name": method}, **JOB}
    _print_quote(analyst.quote(**request))
    began = time.monotonic()
    job = analyst.jobs.submit(**request)
    model = job.result()
    accuracy = data.accuracy(model, tested)
    print(f"  {job.id}: {job.state} in {time.monotonic() - began:.1f} s, {job.job.progress.total} private answers")
    baseline = f"majority class: {100 * majority:.1f} %"
    print(f"  test accuracy {100 * accuracy:.1f} % on the {len(tested):,} test rows ({baseline})")
    recomputed = _check(job, model)
    privacy = model.privacy
    return {
        "method": method,
        "epsilon": privacy.epsilon,
        "delta": privacy.delta,
        "accuracy": accuracy,
        "verified": True,
        "recomputed_epsilon": recomputed,
    }


def _print_quote(quote: Quote) -> None:
    fits = "fits" if quote.fits else "does not fit"
    print(f"  quote: {loss(quote.epsilon, quote.delta)}, certified by {quote.accountant}; it {fits}")
    for query in quote.queries:
        multiplier = f"noise multiplier {query.noise_multiplier:.3g}"
        answers = f"{query.answers} answer{'s' if query.answers > 1 else ''}"
        print(f"    {query.name}: {answers}, {query.mechanism['name']}, {multiplier}")


def _check(job: JobHandle, model: Model) -> float | None:
    receipt = job.receipt()
    _print_receipt(receipt)
    checked = receipt.verify(model=model)
    print("  verified offline: the signature is valid, the receipt is for this model, and its events cost")
    print(f"    epsilon {checked.recomputed_epsilon:.4g}, recomputed by {checked.accountant}")
    return checked.recomputed_epsilon


def _print_receipt(receipt: Receipt) -> None:
    facts = receipt.facts
    print(f"  receipt {facts['id']}")
    for name in ("neighbors", "rows", "epsilon", "delta", "accountant", "accountant_version", "numerics"):
        print(f"    {name:<19}{facts[name]:g}" if isinstance(facts[name], float) else f"    {name:<19}{facts[name]}")
    print(f"    {'ledger entry':<19}{facts['sequence']}, {facts['hash'][:16]}...")


def _one_too_many(analyst: Client, dataset: Dataset, status: BudgetStatus) -> dict[str, Any]:
    _title("What remains, and one job too many")
    print(f"  spent by {status.jobs} jobs: {100 * status.share:.3g} % of the budget")
    print(f"  together they guarantee epsilon {status.spent.epsilon:.4g} at delta {status.spent.delta:g}")
    print(f"  the largest further job: epsilon {status.remaining.epsilon:.4g}")
    try:
        job = analyst.jobs.submit(dataset=dataset.id, method={"name": METHODS[0]}, **JOB)
    except ProblemError as error:
        if error.code != "budget_exhausted" or error.remaining is None:
            raise
        print(f"  requested epsilon {JOB['privacy']['epsilon']:g} once more: refused, {error.status} {error.code}")
        print(f"    Nothing was charged. The most that fits is {loss(error.remaining.epsilon, error.remaining.delta)}.")
        return {"code": error.code, "status": error.status, "remaining": error.remaining.model_dump()}
    raise RuntimeError(f"{job.id} was admitted beyond the budget")


def _majority(rows: Sequence[Row]) -> float:
    share = sum(row[data.TARGET] == data.POSITIVE for row in rows) / len(rows)
    return max(share, 1 - share)


def _title(text: str) -> None:
    print(f"\n{text}", flush=True)
