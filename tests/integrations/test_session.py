"""`purse.session`: answers of own code with exact noise."""

import math
from typing import Any

import numpy as np
import pytest

import purse
from accounting.errors import OutOfRange
from accounting.mechanisms import Gaussian
from purse import Client, ProblemError
from tests.integrations.conftest import Register
from tests.support.live import Live

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _server(service: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PURSE_URL", service.url)
    monkeypatch.setenv("PURSE_TOKEN", service.token)


def test_answers_are_recorded_noised_and_refused_beyond_the_plan(client: Client, register: Register) -> None:
    dataset = register()
    with purse.session(dataset, privacy=1.0, steps=3, title="own code") as session:
        number = session.gaussian(5.0, sensitivity=1.0)
        assert isinstance(number, float)
        table = session.gaussian(np.arange(6.0).reshape(2, 3), sensitivity=2.0)
        assert table.shape == (2, 3)
        std = Gaussian().std(session.handle.noise_multiplier, 2.0, 6)  # type: ignore[arg-type]
        assert np.abs(table - np.arange(6.0).reshape(2, 3)).max() < 12 * std
        assert math.fsum(table.ravel() != np.arange(6.0)) == 6
        with pytest.raises(OutOfRange):
            session.gaussian(1.0, sensitivity=0.0)
        assert session.handle.plan[0].recorded == 2
        with pytest.raises(OutOfRange):
            session.gaussian(math.nan, sensitivity=1.0)
        assert session.handle.plan[0].recorded == 3
        with pytest.raises(ProblemError) as refused:
            session.gaussian(1.0, sensitivity=1.0)
        assert refused.value.code == "session_exhausted"
    facts: Any = session.receipt().facts
    assert facts["title"] == "own code"
    assert client.sessions.get(session.id).state == "closed"


def test_a_session_stays_open_after_an_error(client: Client, register: Register) -> None:
    """An error may depend on the data, so it must not decide what is refunded."""
    dataset = register()
    opened = []

    def fail() -> None:
        with purse.session(dataset, privacy={"epsilon": 0.5}, steps=4) as session:
            opened.append(session)
            session.gaussian(1.0, sensitivity=1.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    (session,) = opened
    reserved = client.sessions.get(session.id).session
    assert reserved.state == "open"
    assert reserved.charged == reserved.reserved


def test_a_target_that_does_not_fit_is_refused(register: Register) -> None:
    with pytest.raises(ProblemError) as refused:
        purse.session(register(), privacy=50.0)
    assert refused.value.code == "budget_exhausted"
