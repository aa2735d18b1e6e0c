"""A start on a ledger that does not hold, or without the key that signed for it, is refused; so it can be asked for."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.cli import main
from app.ledger.audit import UnsoundLedger, refuse_unsound, verify
from app.ledger.keys import KEY_FILE, KeyLost, SigningKeys
from tests.service.conftest import MakeService
from tests.support.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A released job, a queued one and an untouched dataset."""
    world = World.at(tmp_path / "home")
    dataset = world.dataset()
    world.submit(dataset, privacy={"epsilon": 0.2})
    claim = world.claim()
    assert claim is not None
    world.end(claim)
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
            [row] = connection.execute(sa.text("select id, state from datasets order by created_at, id limit 1")).all()
            document = json.loads(row.state) | changes
            values = {"id": row.id, "state": json.dumps(document)}
            connection.execute(sa.text("update datasets set state = :state where id = :id"), values)

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


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_every_change_of_what_is_stored_is_found(world: World, change: Callable[[World], None] | None) -> None:
    if change is None:
        refuse_unsound(world.database)
        assert list(verify(world.database).values()) == [None, None]
        return
    change(world)
    assert any(verify(world.database).values())
    with pytest.raises(UnsoundLedger, match="restore home and database from one backup"):
        refuse_unsound(world.database)


def test_a_server_does_not_start_on_one(world: World, make_service: MakeService) -> None:
    CHANGES["another head"](world)  # type: ignore[misc]
    world.database.close()
    with pytest.raises(UnsoundLedger), make_service(world.settings.home):
        pass


def _purse(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    said = capsys.readouterr()
    return int(ended.value.code or 0), said.out, said.err


def test_purse_ledger_verify_says_the_same(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    ask = ("ledger", "verify", "--home", str(world.settings.home))
    code, out, _ = _purse(capsys, *ask)
    assert (code, out.count("holds")) == (0, 2)
    CHANGES["another head"](world)  # type: ignore[misc]
    code, out, _ = _purse(capsys, *ask, "--json")
    assert code == 1
    assert sorted(json.loads(out).values(), key=str) == [None, "the stored state is not what its entries lead to"]


def test_a_missing_signing_key_beside_a_ledger_is_refused(
    world: World, make_service: MakeService, capsys: pytest.CaptureFixture[str]
) -> None:
    file = world.settings.home / KEY_FILE
    file.unlink()
    with pytest.raises(KeyLost, match="restore it from a backup"), make_service(world.settings.home):
        pass
    assert not file.exists(), "no other key is made in its place"
    ask = ("ledger", "new-key", "--home", str(world.settings.home))
    assert _purse(capsys, *ask)[0] == 1
    assert _purse(capsys, *ask, "--is-lost")[0] == 0
    assert SigningKeys.beside(world.settings.home, world.database).jwks()["keys"]
    assert _purse(capsys, *ask, "--is-lost")[0] == 1, "one that is there is not replaced"
