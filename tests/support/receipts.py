"""A receipt of a release, with the ledger's entry and the key that signs it."""

from typing import Any

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.mechanisms import Gaussian, PoissonGaussian
from accounting.plan import Query
from accounting.records import receipt, signing
from accounting.records.chain import Entry
from accounting.records.events import Charged, Opened, Released, Started
from accounting.records.ledger import advance

KEY = signing.generate_key()
KEYS = signing.jwks(KEY)
MODEL = "ab" * 32
AT = "2026-01-02T03:04:05.678Z"
GD = (Query("gradient", 100, Gaussian()),)
SVRG = (Query("snapshot", 4, Gaussian(), 0.3), Query("change", 100, PoissonGaussian(0.01)))


def release_entry(job: str = "j1", model: str = MODEL) -> Entry:
    rule = Filter.open("rdp", Privacy(2.0, 1e-6))
    state, _ = advance(None, Opened("d1", 20_000, rule), AT)
    state, _ = advance(state, Charged(job, (1, 1), Privacy(0.5, 1e-6)), AT)
    state, _ = advance(state, Started(job, 1), AT)
    return advance(state, Released(job, 1, model), AT)[1]


ENTRY = release_entry()


def make(queries: tuple[Query, ...] = GD, privacy: Privacy = Privacy(0.5, 1e-6), **change: Any) -> receipt.Receipt:  # noqa: B008
    release_plan = calibrate(queries, privacy)
    facts: dict[str, Any] = {
        "id": "r1",
        "dataset": "d1",
        "dataset_name": "Censüs\u00a02026",
        "records": 20_000,
        "unit": Unit(),
        "analyst": "ada",
        "job": "j1",
        "method": {"name": "dp_gd", "steps": 100, "step": 0.25},
        "release_plan": release_plan,
        "transcript": release_plan.plan,
        "model_sha256": MODEL,
        "entry": ENTRY,
        "issued_at": AT,
    }
    return receipt.build(receipt.Release(**facts | change))
