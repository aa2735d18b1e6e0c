"""A start on a ledger that does not hold, or without the key that signed for it, is refused; so it can be asked for."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.cli import serving
from app.datasets import values
from app.http.errors import ApiError
from app.http.lists import Paging
from app.identity import service as identity
from app.jobs import service
from app.ledger import store
from app.ledger.audit import UnsoundLedger, refuse_unsound, verify
from app.ledger.keys import KEY_FILE, KeyLost, SigningKeys
from app.persistence.files import StartRefused
from app.worker.dispatcher import Dispatcher
from purse.wire.tokens import TokenRequest
from tests.service.conftest import MakeService
from tests.support.calculations import InlineCalculators
from tests.support.cli import purse
from tests.support.inline_engine import InlineEngine
from tests.support.patience import PATIENCE, until
from tests.support.world import World, run_out


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world with a released job, a queued job and an unused dataset."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    world.release(dataset)
    world.submit(dataset, privacy={"epsilon": 0.2})
    world.dataset()
    return world


def _write(statement: str) -> Callable[[World], None]:
    def change(world: World) -> None:
        with world.database.write() as connection:
            assert connection.execute(sa.text(statement)).rowcount > 0

    return change


def _state(**changes: object) -> Callable[[World], None]:
    """The stored state is changed in a way that reads well by itself."""

    def change(world: World) -> None:
        with world.database.write() as connection:
            first = "(select id from datasets order by created_at, id limit 1)"
            [row] = connection.execute(sa.text(f"select id, state from ledgers where id = {first}")).all()
            document = json.loads(row.state) | changes
            values = {"id": row.id, "state": json.dumps(document)}
            connection.execute(sa.text("update ledgers set state = :state where id = :id"), values)

    return change


CHANGES = {
    "nothing": None,
    "budget given back": _state(charges=1, spent=["1", "1", "1"]),
    "another head": _state(head="0" * 64),
    "an analyst's part": _write("update analyst_spend set charges = charges + 1"),
    "a charge taken out": _write("delete from ledger_entries where sequence = 2"),
    "the end cut off": _write("delete from ledger_entries where sequence = 5"),
    "an entry rewritten": _write("update ledger_entries set body = replace(body, 'job_', 'jab_') where sequence = 2"),
    "a dataset grown": _write("update datasets set rows = rows + 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_stored_entries_is_detected(world: World, change: Callable[[World], None] | None) -> None:
    if change is None:
        refuse_unsound(world.database)
        assert list(verify(world.database).values()) == [None, None]
        return
    change(world)
    assert any(verify(world.database).values())
    with pytest.raises(UnsoundLedger, match="backup"):
        refuse_unsound(world.database)


@pytest.mark.slow
def test_a_server_does_not_start_on_a_changed_ledger(world: World, make_service: MakeService) -> None:
    CHANGES["another head"](world)  # type: ignore[misc]
    world.database.close()
    with pytest.raises(UnsoundLedger), make_service(world.settings.home):
        pass


def test_a_server_in_this_process_does_not_start_on_a_changed_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "ForkedCalculators", lambda *_: InlineCalculators())
    monkeypatch.setattr(serving, "ForkedEngine", lambda _: InlineEngine())
    CHANGES["another head"](world)  # type: ignore[misc]
    identity.create(world.database, TokenRequest(name="who comes back", role="steward"))
    world.database.close()
    app: Any = None
    with pytest.raises(StartRefused, match="Restore home"), serving.serving(world.settings, app, "fit"):
        pytest.fail("it started")


def test_an_error_of_the_dispatcher_is_logged_by_its_name_and_does_not_end_it(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    dispatcher, waits = Dispatcher(world.settings, world.database, world.keys, InlineEngine()), list[float]()
    is_stopping = threading.Event()

    def fail() -> float:
        raise ValueError("s3cr3t")

    def wait(_event: threading.Event, seconds: float) -> None:
        waits.append(seconds)
        assert len(waits) < 2 or is_stopping.wait(PATIENCE)

    monkeypatch.setattr(dispatcher, "step", fail)
    monkeypatch.setattr(dispatcher, "leave", fail)
    monkeypatch.setattr(world.clock, "wait", wait)
    dispatcher.start()
    until(lambda: len(waits) == 2)
    assert not dispatcher.drain(0.0)
    is_stopping.set()
    assert dispatcher.drain(PATIENCE)
    assert waits == [1.0, 1.0]
    messages = [record.getMessage() for record in caplog.records if "dispatcher" in record.getMessage()]
    assert messages == ["dispatcher_error ValueError"] * 3
    assert "s3cr3t" not in caplog.text


@pytest.mark.slow
def test_purse_ledger_verify_says_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("ledger", "verify", "--home", str(world.settings.home))
    code, out, _ = purse(capsys, *ask)
    assert (code, out.count("valid")) == (0, 2)
    assert [line.split() for line in out.splitlines()[1:]] == [["people", "1", "valid"], ["people", "2", "valid"]]
    CHANGES["another head"](world)  # type: ignore[misc]
    code, out, _ = purse(capsys, *ask, "--json")
    assert code == 1
    assert sorted(json.loads(out).values(), key=str) == [
        None,
        "the stored state differs from the state that its entries give",
    ]


@pytest.mark.slow
def test_a_missing_signing_key_beside_a_ledger_is_refused(
    world: World, make_service: MakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.settings.home / KEY_FILE
    file.unlink()
    with pytest.raises(KeyLost, match="backup"), make_service(world.settings.home):
        pass
    assert not file.exists(), "no other key is made in its place"
    ask = ("ledger", "new-key", "--home", str(world.settings.home))
    assert purse(capsys, *ask)[0] == 1
    assert purse(capsys, *ask, "--is-lost")[0] == 0
    assert SigningKeys.of(world.settings.home, world.database).jwks()["keys"]
    assert purse(capsys, *ask, "--is-lost")[0] == 1, "one that is there is not replaced"


class TestValues:
    def _change(self, world: World) -> tuple[str, Path, bytes]:
        """Change one bit of one stored value of the first dataset."""
        first = service.page(world.database, world.analyst, Paging()).items[0].dataset
        file = world.settings.home / "datasets" / first / "numbers.npy"
        original = file.read_bytes()
        file.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
        return first, file, original

    @pytest.mark.slow
    def test_a_job_on_damaged_values_releases_nothing_and_later_jobs_are_refused(
        self, world: World, caplog: pytest.LogCaptureFixture
    ) -> None:
        dataset, file, original = self._change(world)
        dispatcher = Dispatcher(world.settings, world.database, world.keys, InlineEngine())
        dispatcher.step()
        run_out(world, dispatcher)
        states = [
            (job.state, job.error) for job in service.page(world.database, world.analyst, Paging(order="asc")).items
        ]
        assert states == [("done", None), ("failed", "job_failed")]
        assert f"dataset_damaged {dataset}" in caplog.text
        kinds = world.kinds(dataset)
        with pytest.raises(ApiError, match="dataset_damaged"):
            world.submit(dataset, privacy={"epsilon": 0.2})
        assert world.kinds(dataset) == kinds, "nothing was charged"
        file.write_bytes(original)
        assert all(values.verify(world.database, world.settings.home).values())
        assert world.submit(dataset, privacy={"epsilon": 0.2}).state == "queued"

    @pytest.mark.slow
    def test_a_queued_job_waits_until_the_values_are_restored(self, world: World) -> None:
        _, file, original = self._change(world)
        assert sorted(values.verify(world.database, world.settings.home).values()) == [False, True]
        assert world.claim() is None
        file.write_bytes(original)
        values.verify(world.database, world.settings.home)
        assert world.claim() is not None

    @pytest.mark.slow
    def test_purse_ledger_verify_checks_them(self, world: World, capsys: pytest.CaptureFixture[str]) -> None:
        dataset, file, _ = self._change(world)
        ask = ("ledger", "verify", "--home", str(world.settings.home), "--json")
        code, out, _ = purse(capsys, *ask)
        assert (code, json.loads(out)[dataset]) == (1, "its values are not the ones that were stored")
        file.unlink()
        assert purse(capsys, *ask)[0] == 1


@pytest.mark.slow
def test_a_head_that_no_ledger_contains_is_reported(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = next(iter(verify(world.database)))
    with world.database.read() as connection:
        newest = store.newest(connection, dataset)
    assert newest is not None
    ask = ("ledger", "verify", "--home", str(world.settings.home), "--head")
    assert purse(capsys, *ask, str(newest.head))[0] == 0
    code, out, _ = purse(capsys, *ask, f"{newest.sequence + 1}:{newest.hash}")
    assert (code, out.count("valid"), "no ledger" in out) == (1, 2, True)
