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
from purse.wire.datasets import Budget, BudgetStatus, Dataset
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
    """Tells the story on stdout; returns its numbers."""
    began = time.monotonic()
    uploaded, kept_out = data.split(data.rows())
    majority = _majority(kept_out)
    print("Privy Purse on the RAND Health Insurance Experiment (public domain)")
    print(f"  {len(uploaded) + len(kept_out):,} rows: one person in one year each, and a row is what is protected.")
    print(f"  {len(uploaded):,} go to the service; every fifth, {len(kept_out):,}, is kept out to test on.")
    print("  To predict: does this person see a doctor twice or more in this year?")
    with tempfile.TemporaryDirectory(prefix="purse-demo-") as folder:
        home = Path(folder)
        _title("The server starts: SQLite and two local worker processes")
        with serving(home) as (url, steward_token):
            print(f"  ready on {url} after {time.monotonic() - began:.1f} s")
            with Client(url, steward_token) as steward:
                dataset = _upload(steward, home / "randhie.csv", uploaded)
                analyst_token = steward.tokens.create("alice", "analyst").token
                steward.datasets.grant(dataset.id, "alice")
                print("  alice, an analyst, has a token and a grant: without one the dataset is not there for her")
            with Client(url, analyst_token) as analyst:
                models = [_train(analyst, dataset, method, kept_out, majority) for method in METHODS]
                status = analyst.datasets.budget(dataset.id)
                refusal = _one_too_many(analyst, dataset, status)
        seconds = time.monotonic() - began
        print(f"\nThe server has stopped and its state is gone. {seconds:.0f} s in all.")
    return {
        "dataset": {"rows": len(uploaded), "kept_out": len(kept_out), "majority": majority},
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
    print(f"  budget: epsilon {BUDGET.epsilon:g} at delta {BUDGET.delta:g}, for everything ever asked about it")
    return dataset


def _train(analyst: Client, dataset: Dataset, method: str, kept_out: Sequence[Row], majority: float) -> dict[str, Any]:
    _title(f"Alice, an analyst, trains a model with {method}")
    request = {"dataset": dataset.id, "method": {"name": method}, **JOB}
    _say_quote(analyst.quote(**request))
    began = time.monotonic()
    job = analyst.jobs.submit(**request)
    model = job.result()
    accuracy = _accuracy(analyst, model, kept_out)
    print(f"  {job.id}: {job.state} in {time.monotonic() - began:.1f} s, {job.job.progress.total} private answers")
    print(f"  test accuracy {accuracy:.1%} on the {len(kept_out):,} rows kept out (majority class: {majority:.1%})")
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


def _say_quote(quote: Quote) -> None:
    print(
        f"  quote: epsilon {quote.epsilon:.4g} at delta {quote.delta:g}, certified by {quote.accountant}; it ", end=""
    )
    print("fits" if quote.fits else "does not fit")
    for query in quote.queries:
        multiplier = f"noise multiplier {query.noise_multiplier:.3g}"
        print(f"    {query.name}: {query.answers} answers, {query.mechanism['name']}, {multiplier}")


def _check(job: JobHandle, model: Model) -> float | None:
    receipt = job.receipt()
    _say_receipt(receipt)
    found = receipt.verify(model=model)
    print("  verified offline: the signature holds, the receipt is for this model, and its events cost")
    print(f"    epsilon {found.recomputed_epsilon:.4g}, recomputed by {found.accountant}")
    return found.recomputed_epsilon


def _say_receipt(receipt: Receipt) -> None:
    said = receipt.facts
    print(f"  receipt {said['id']}")
    for name in ("neighbors", "rows", "epsilon", "delta", "accountant", "accountant_version", "numerics"):
        print(f"    {name:<19}{said[name]:g}" if isinstance(said[name], float) else f"    {name:<19}{said[name]}")
    print(f"    {'ledger entry':<19}{said['sequence']}, {said['hash'][:16]}...")


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
        print(f"  asked for epsilon {JOB['privacy']['epsilon']:g} once more: refused, {error.status} {error.code}")
        print(f"    {error.detail}")
        print(f"    what would fit: epsilon {error.remaining.epsilon:.4g} at delta {error.remaining.delta:g}")
        return {"code": error.code, "status": error.status, "remaining": error.remaining.model_dump()}
    raise RuntimeError(f"{job.id} was admitted beyond the budget")


def _accuracy(client: Client, model: Model, rows: Sequence[Row]) -> float:
    yes = client.predict(model, rows) > 0.5
    return sum(bool(y) == (row[data.TARGET] == data.POSITIVE) for y, row in zip(yes, rows, strict=True)) / len(rows)


def _majority(rows: Sequence[Row]) -> float:
    share = sum(row[data.TARGET] == data.POSITIVE for row in rows) / len(rows)
    return max(share, 1 - share)


def _title(text: str) -> None:
    print(f"\n{text}", flush=True)
