"""Partitions in object storage on the real engine: shares on Dask processes, one of which is killed as it sums."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.noise import Noise
from app.datasets import folders
from app.persistence.clock import SystemClock
from app.settings import Settings
from app.sources import partitions
from app.sources.matrix import checksum
from app.sources.partitions import prepared
from app.worker import cluster
from app.worker.cluster import DaskEngine
from app.worker.dispatcher import Dispatcher
from app.worker.engine import DAMAGED, RAISED, VANISHED
from app.worker.execute import Payload, SumFailed
from app.worker.shares import Share, Shares
from solvers.bounds import GROUP
from solvers.data_access.partitioned import LocalPartitions, Partitioned
from solvers.solve import run
from tests.support import objects
from tests.support.patience import PATIENCE, until
from tests.support.running import TIMES
from tests.support.seeded import SeededBits
from tests.support.world import World

pytestmark = pytest.mark.slow
ROWS = 2 * GROUP + 5000
STEPS: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 12}, "privacy": {"epsilon": 0.2}}


@dataclass
class Case:
    """An engine, a world with one dataset in partitions, and the payload of a job on it."""

    engine: DaskEngine
    world: World
    dataset: str
    payload: str


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    home = tmp_path_factory.mktemp("shares") / "home"
    with objects.bucket() as url:
        world = World.at(home, SystemClock(), storage_url=url, **TIMES)
        dataset = world.dataset(ROWS, storage="partitions", budget={"epsilon": 20.0, "delta": 1e-7})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cluster, "START_TIMEOUT_SECONDS", PATIENCE)
            engine = DaskEngine(Settings(home=home.parent / "engine", **TIMES))
        folder = folders.path(home, dataset)
        spec = world.priced(dataset, **STEPS).spec
        document: dict[str, Any] = {
            "folder": str(folder),
            "scratch": str(home.parent / "scratch"),
            "checksum": checksum(folder),
        }
        document |= {"spec": json.loads(spec.model_dump_json()), "partitions": partitions.described(folder)}
        payload = json.dumps(document)
        yield Case(engine, world, dataset, payload)
        engine.close()
        world.database.close()


def whole(case: Case, scratch: Path) -> Partitioned:
    """Return the same partitions, all in this process."""
    job = Payload.model_validate_json(case.payload)
    assert job.partitions is not None
    all_partitions = [prepared(job.spec, job.partitions, i, scratch) for i in range(3)]
    return Partitioned(job.spec.problem, LocalPartitions(all_partitions))


def solved(case: Case, data: Partitioned, on_answer: Any = None) -> Any:
    spec = Payload.model_validate_json(case.payload).spec
    bits = Noise(SeededBits(5))
    return run(spec.method, spec.problem, data, spec.release_plan, bits, on_answer, preparation=spec.preparation)


def test_a_killed_worker_changes_neither_answer_nor_transcript(case: Case, tmp_path: Path) -> None:
    until(lambda: len(case.engine.client.nthreads()) == 2)
    w, transcript, _ = solved(case, whole(case, tmp_path))
    client, killed = case.engine.client, list[int]()
    shares = Shares(client, case.payload, 3)
    data = Partitioned(Payload.model_validate_json(case.payload).spec.problem, shares)

    def kill_one(step: int) -> None:
        if step == 7 and not killed:
            killed.extend(client.run(os.getpid).values())
            os.kill(killed[0], signal.SIGKILL)

    other_solution, again, _ = solved(case, data, kill_one)
    shares.close()
    assert killed
    assert np.array_equal(w, other_solution)
    assert transcript == again


def test_a_job_runs_near_its_shares_and_survives_a_lost_share(case: Case) -> None:
    engine, world = case.engine, case.world
    until(lambda: engine.slots == 2 and len(engine.client.nthreads()) == 2)
    dispatcher = Dispatcher(world.settings, world.database, world.keys, engine)
    dispatcher.start()
    try:
        long: dict[str, Any] = {"method": {"name": "dp_gd", "steps": 80}, "privacy": {"epsilon": 0.02}}

        def sharing(job: str) -> list[str]:
            """Return the workers that have opened a share and do not run the attempt itself."""
            running, keys_by_worker = engine.client.processing(), engine.client.has_what()
            attempt_workers = [address for address, keys in running.items() if f"{job}-1" in keys]
            sharing_workers = [
                address
                for address, keys in keys_by_worker.items()
                if any(str(key).startswith("opened") for key in keys)
            ]
            return [address for address in sharing_workers if attempt_workers and address not in attempt_workers]

        def is_over(job: str) -> bool:
            return world.job(job).state not in ("queued", "running")

        def shared() -> list[str]:
            """Submit a job, and return it and the workers that share it, unless it ends before."""
            job = world.submit(case.dataset, **long).id
            dispatcher.wake()
            until(lambda: sharing(job) or is_over(job))
            return [job, *sharers] if (sharers := sharing(job)) else []

        job, victim, *_ = until(shared)
        os.kill(engine.client.run(os.getpid, workers=[victim])[victim], signal.SIGKILL)
        until(lambda: is_over(job))
        assert (world.job(job).state, world.job(job).attempt) == ("done", 1)
        world.check()
        # No result stays in memory.
        until(lambda: not [key for keys in engine.client.has_what().values() for key in keys])
    finally:
        dispatcher.stop()


def test_an_error_of_a_share_is_reported_in_one_word(case: Case) -> None:
    """Texts of errors do not reach the log, even if the data are damaged."""
    document = json.loads(case.payload)
    document["partitions"]["partitions"][1]["sha256"] = "0" * 64
    unreachable = json.loads(case.payload)
    unreachable["partitions"]["place"] = "file:///dev/null"
    for payload, word in ((document, DAMAGED), (unreachable, VANISHED), ({"spec": 1}, RAISED)):
        shares = Shares(case.engine.client, json.dumps(payload), 3)
        data = Partitioned(Payload.model_validate_json(case.payload).spec.problem, shares)
        with pytest.raises(SumFailed) as failure:
            solved(case, data)
        assert failure.value.word == word
        shares.close()


def test_a_share_that_is_sent_to_a_worker_contains_no_record(case: Case) -> None:
    kind, pickled_arguments = Share(case.payload, range(2)).__reduce__()
    assert kind is Share
    assert pickled_arguments == (case.payload, range(2))
    assert os.environ["AWS_SECRET_ACCESS_KEY"] not in case.payload  # workers read it from their own environment
