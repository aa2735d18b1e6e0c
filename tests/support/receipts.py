"""A receipt of a release, with the ledger's entry and the key that signs it."""

import functools
import json
from typing import Any

from accounting import Privacy, Unit
from accounting.calibration import calibrate
from accounting.filter import Filter
from accounting.mechanisms import (
    Gaussian,
    Laplace,
    Parallel,
    PoissonGaussian,
    RandomAllocation,
    Resampled,
    SvrgStep,
    WithoutReplacement,
)
from accounting.plan import Query
from accounting.records import receipt, signing
from accounting.records.chain import Entry
from accounting.records.events import Opened, Released, Started
from accounting.records.signing import SigningKey, sign_json
from tests.support.chains import AT, charge_of, ledger_of

KEY = signing.generate_key()
KEYS = signing.jwks(KEY)
MODEL = "ab" * 32
GD = (Query("gradient", 100, Gaussian()),)
SVRG = (Query("snapshot", 4, Gaussian(), 0.3), Query("change", 100, PoissonGaussian(0.01)))


def release_entry(job: str = "j1", model: str = MODEL) -> Entry:
    opening = Opened("d1", 20_000, Filter.open("rdp", Privacy(2.0, 1e-6)))
    charge = charge_of(job, (1, 1), Privacy(0.5, 1e-6))
    return ledger_of(opening, charge, Started(job, 1), Released(job, 1, model))[1][-1]


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
    return receipt.build(receipt.ReleaseFacts(**facts | change))


def document(built: receipt.Receipt, key: SigningKey = KEY) -> dict[str, Any]:
    """As it comes out of a file."""
    return receipt.read(json.dumps({"receipt": built, "signature": sign_json(built, key)}))


GOOD = document(make())


def signed(change: dict[str, Any]) -> dict[str, Any]:
    """A receipt with some fields replaced, truly signed."""
    built = GOOD["receipt"] | change
    return {"receipt": built, "signature": sign_json(built, KEY)}


GAUSSIAN = GOOD["receipt"]["event"]["event"]


def repeated(event: Any, count: Any) -> dict[str, Any]:
    return {"type": "SelfComposedDpEvent", "count": count, "event": event}


BAD_EVENTS: dict[str, Any] = {
    "null": None,
    "list": [repeated(GAUSSIAN, 100)],
    "text": "GaussianDpEvent",
    "empty": {},
    "no type": {"count": 100, "event": GAUSSIAN},
    "unknown type": repeated(GAUSSIAN | {"type": "ZCDpEvent"}, 100),
    "a module path": repeated(GAUSSIAN | {"type": "os.system"}, 100),
    "a class to import": {"module_name": "dp_accounting.dp_event", "class_name": "GaussianDpEvent"},
    "an unhashable type": repeated(GAUSSIAN | {"type": ["GaussianDpEvent"]}, 100),
    "a private extra": repeated(GAUSSIAN | {"_": 1}, 100),
    "a missing key": repeated({"type": "GaussianDpEvent"}, 100),
    **{
        name: repeated(GAUSSIAN | {"noise_multiplier": z}, 100)
        for name, z in {
            "NaN": float("nan"), "infinity": float("inf"), "zero": 0.0, "subnormal": 5e-324, "huge": 1e300,
            "a huge integer": 10**400, "a bool": True, "an array": [GAUSSIAN["noise_multiplier"]],
            "negative": -GAUSSIAN["noise_multiplier"], "a number in a string": str(GAUSSIAN["noise_multiplier"]),
            "more noise by one in a hundred million": GAUSSIAN["noise_multiplier"] * (1 + 1e-8),
        }.items()
    },
    **{f"count {count!r}": repeated(GAUSSIAN, count) for count in (0, -1, 99, 100.0, True, "100", 2**53 + 1)},
    "sampled": repeated({"type": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": GAUSSIAN}, 100),
    "composed in another way": {"type": "ComposedDpEvent", "events": [GAUSSIAN] * 100},
    "a composition around it": {"type": "ComposedDpEvent", "events": [repeated(GAUSSIAN, 100)]},
    "nested beyond reason": functools.reduce(lambda event, _: repeated(event, 1), range(900), GAUSSIAN),
}  # fmt: skip
OF_RECORDS = {  # what is asked of 20,000 records, and of how many more or less it cannot be
    "fresh batches": (SvrgStep(100, 20_000), 19_999),
    "batches": (WithoutReplacement(100, 20_000), 19_999),
    "a bootstrap sample": (Resampled(Laplace(), 20_000), 19_999),
    "a larger bootstrap sample": (Resampled(Laplace(), 20_000), 20_001),
    "parts of one": (Parallel(Gaussian(), 20_000), 19_999),
    "parts of a bootstrap sample": (Resampled(Parallel(Laplace(), 7), 20_000), 6),
    "Poisson batches of one": (PoissonGaussian(1 / 20_000), 19_998),
    "slots of one": (RandomAllocation(0.5, 10_000), 19_998),
    "ordered slots of one": (RandomAllocation(1.0, 20_000, "ordered"), 19_998),
}
