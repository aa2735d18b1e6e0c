"""Signing keys are rotated while the server runs: what was signed before verifies, what comes after has the new key."""

import json
from pathlib import Path
from typing import Any

import pytest

from accounting.records import receipt
from accounting.records.signing import check_json
from app.ledger.keys import KEY_FILE, SigningKeys
from tests.service.conftest import MakeService
from tests.support.cli import purse
from tests.support.service import JOB, Service


def _released(service: Service, dataset: str) -> dict[str, Any]:
    return service.receipt(service.done(JOB | {"dataset": dataset, "method": {"name": "dp_gd"}})["id"], "auditor")


def _kids(service: Service) -> list[str]:
    return [key["kid"] for key in service.client.get("/v1/keys").json()["keys"]]


def _is_valid(service: Service, document: dict[str, Any]) -> bool:
    return bool(service.client.post("/v1/receipts/verify", json=document).json()["valid"])


def _rotate(home: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    code, out, _ = purse(capsys, "keys", "rotate", "--home", str(home), "--json")
    assert code == 0
    rotation: dict[str, Any] = json.loads(out)
    return rotation


@pytest.mark.slow
def test_a_running_server_loads_a_new_key_and_a_restarted_one_keeps_both(
    make_service: MakeService, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_service(tmp_path / "home") as service:
        dataset, pinned = service.dataset(), service.client.get("/v1/keys").json()
        [first] = _kids(service)
        old = _released(service, dataset)
        rotation = _rotate(service.home, capsys)
        assert _kids(service) == [rotation["signs now"], first]
        assert rotation["retired"] == [first]
        new = _released(service, dataset)
        assert receipt.verify(old, pinned).holds, "pinned keys keep verifying their receipts"
        assert not receipt.verify(new, pinned).signature
        assert _is_valid(service, old)
        assert _is_valid(service, new)
        head = service.call("auditor", "GET", f"/v1/datasets/{dataset}/ledger/head").json()
        assert (
            check_json(
                {name: head[name] for name in ("dataset", "sequence", "hash", "at")},
                head["signature"],
                {"keys": service.client.get("/v1/keys").json()["keys"][:1]},
                "privy-purse-head",
            )
            is None
        )
    with make_service(tmp_path / "home") as service:
        assert _kids(service) == [rotation["signs now"], first]
        assert _is_valid(service, old)
        assert _is_valid(service, new)


def test_a_missing_or_damaged_key_file_leaves_the_running_key(tmp_path: Path) -> None:
    keys = SigningKeys(tmp_path)
    keys_before = keys.jwks()
    for change in (lambda: (tmp_path / KEY_FILE).write_text("{}"), (tmp_path / KEY_FILE).unlink):
        change()
        assert keys.jwks() == keys_before
    assert list(tmp_path.iterdir()) == [], "no new key file is written"


def test_an_empty_home_has_no_key_to_rotate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = purse(capsys, "keys", "rotate", "--home", str(tmp_path / "home"))
    assert (code, "new-key" in err) == (1, True)
