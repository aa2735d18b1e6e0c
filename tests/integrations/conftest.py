"""A real server in this process, and datasets of either relation for the adapters' sessions."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from purse import Client
from purse.wire.datasets import Dataset
from tests.support.live import Live, live
from tests.support.service import SPEC, people

Register = Callable[..., Dataset]
_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("integrations") / "home") as running:
        yield running


@pytest.fixture
def client(service: Live) -> Iterator[Client]:
    """A steward's client."""
    with Client(service.url, service.token) as opened:
        yield opened


@pytest.fixture
def register(client: Client, tmp_path: Any) -> Register:
    """Register an own dataset, with `zero_out` unless the spec states another relation."""

    def registered(**changes: Any) -> Dataset:
        number = next(_numbers)
        file = tmp_path / f"people-{number}.csv"
        file.write_bytes(people(200 + number))
        spec = SPEC | {"name": f"integrations {number}", "neighbors": "zero_out"} | changes
        return client.datasets.upload(file, spec=spec)

    return registered
