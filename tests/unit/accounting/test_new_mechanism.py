"""A new mechanism is one file, one line in the union and one proof: tried on a copy of the floor that has one more."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

FILE = '''
"""Randomized response on one bit. Precondition: ... Postcondition: 2/z-DP. Proof: docs/proofs/coin.md."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from accounting.divergences import randomized_response
from accounting.mechanisms.mechanism import AbstractMechanism, Curves, Event, Vector
from accounting.noise import Noise
from accounting.noise.draws import uniform_below
from accounting.numbers import whole
from accounting.privacy import REPLACE_ONE, Relation, Unit, sensitivity_factor


@dataclass(frozen=True, slots=True)
class Coin(AbstractMechanism):
    """`sides` is what it has of its own."""

    sides: int
    name: Literal["coin"] = "coin"
    answers: ClassVar[int] = 1
    hides: ClassVar[bool] = False

    def __post_init__(self) -> None:
        whole(self.sides, "sides", 2, 2)

    def fits(self, n: int, unit: Unit) -> bool:
        return unit.slots == 1

    def needs_all_rows(self, n: int) -> None:
        pass

    def curves(self, noise_multiplier: float, relation: Relation = REPLACE_ONE) -> Curves:
        return Curves.of_pure(sensitivity_factor(relation) / noise_multiplier)

    def multiplier(self, mu_squared: float, relation: Relation = REPLACE_ONE) -> float:
        return sensitivity_factor(relation) / randomized_response.epsilon_of_gdp(mu_squared**0.5)

    def event(self, noise_multiplier: float) -> Event:
        return {"type": "RandomizedResponseDpEvent", "noise_multiplier": noise_multiplier, "sides": self.sides}

    def std(self, noise_multiplier: float, bound: float, dimension: int) -> float:
        return 0.0

    def perturb(self, value: Vector, noise_multiplier: float, bound: float, noise: Noise) -> Vector:
        kept = uniform_below(noise, 1 << 40) < (1 << 40) / (1 + np.exp(-2.0 / noise_multiplier))
        return value if kept else 1 - value
'''

USE = """
import math
from typing import get_args
from accounting import Privacy
from accounting.calibration import calibrate
from accounting.errors import CodecError
from accounting.filter import Filter
from accounting.mechanisms import Mechanism
from accounting.mechanisms.coin import Coin
from accounting.plan import Query
from accounting.records import receipt
from accounting.records.codec import plan_from_json, plan_to_json
from tests.support.receipts import KEY, KEYS, make

assert Coin in get_args(Mechanism)
for privacy in (Privacy(0.5), Privacy(0.5, 1e-6)):
    queries = (Query("votes", 3, Coin(2)),)
    plan = calibrate(queries, privacy).plan
    assert plan_from_json(plan_to_json(plan)) == plan
    built = make(queries, privacy)
    assert receipt.verify({"receipt": built, "signature": receipt.sign(built, KEY)}, KEYS).holds
document = plan_to_json(plan)
for change in ({"sides": 3}, {"sides": 2.0}, {"sides": math.nan}, {"heads": 1}):
    try:
        plan_from_json({"queries": [document["queries"][0] | change]})
    except CodecError:
        continue
    raise AssertionError(change)
assert Filter.open("pure", Privacy(0.5)).cost(plan)
print("released")
"""


@pytest.mark.slow
def test_one_file_and_one_line_are_all_it_takes(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "accounting", tmp_path / "accounting")
    shutil.copytree(ROOT / "tests" / "support", tmp_path / "tests" / "support")
    (tmp_path / "tests" / "__init__.py").touch()
    rooms = tmp_path / "accounting" / "mechanisms"
    (rooms / "coin.py").write_text(FILE)
    union = (rooms / "__init__.py").read_text()
    line = "from accounting.mechanisms.coin import Coin\n"
    (rooms / "__init__.py").write_text(line + union.replace("Mechanism = (\n", "Mechanism = (\n    Coin |", 1))
    ran = subprocess.run(
        [sys.executable, "-c", USE],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"},
    )
    assert ran.stdout == "released\n", ran.stderr
