"""Settings: from the environment, checked, and silent about secrets."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from app.cli.output import Refusal
from app.cli.state import settings_of
from app.settings import Settings

SECRET = "s3cret-" + "x" * 32


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("PURSE_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PURSE_BOOTSTRAP_TOKEN", "short-secret"),
        ("PURSE_BOOTSTRAP_TOKEN", "with a space " + "x" * 40),
        ("PURSE_BOOTSTRAP_TOKEN", "ä" * 40),
        ("PURSE_PORT", "65536"),
        ("PURSE_WORKERS", "0"),
        ("PURSE_MAX_GRADIENT_EVALUATIONS", "nan"),
        ("PURSE_MAX_GRADIENT_EVALUATIONS", "inf"),
        ("PURSE_LEASE_SECONDS", "-1"),
        ("PURSE_RENEW_SECONDS", "16"),
        ("PURSE_DATABASE_URL", "mysql://localhost/purse"),
        ("PURSE_DATABASE_URL", "sqlite://"),
        ("PURSE_SCHEDULER", "tls://somewhere:8786"),
        ("PURSE_LOG_LEVEL", "loud"),
    ],
)
def test_bad_value_is_refused_without_being_repeated(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert "input_value" not in str(caught.value)
    assert len(value) < 10 or value not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "setting"), [("PURSE_WORKER", "PURSE_WORKERS"), ("PURSE_LOGLEVEL", "PURSE_LOG_LEVEL")]
)
def test_a_misspelt_setting_is_refused(variable: str, setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(Refusal, match=f"{variable} .*{setting}"):
        settings_of()


@pytest.mark.parametrize("variable", ["PURSE_URL", "PURSE_SECRETS_DIR", "PURSE_SERVICE_PORT", "purse_workers"])
def test_variables_of_clients_and_orchestrators_are_no_misspelt_settings(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "3")
    settings_of()


def test_scheduler_speaks_mutual_tls_only(tmp_path: Path) -> None:
    files: dict[str, Any] = {name: tmp_path / name for name in ("scheduler_ca", "scheduler_cert", "scheduler_key")}
    assert Settings(scheduler="tls://somewhere:8786", **files).scheduler == "tls://somewhere:8786"
    with pytest.raises(ValidationError):
        Settings(scheduler="tcp://somewhere:8786", **files)


def test_secret_is_not_in_the_settings_text() -> None:
    assert SECRET not in repr(Settings(bootstrap_token=SecretStr(SECRET)))


def test_home_is_closed_to_others(tmp_path: Path) -> None:
    home = tmp_path / "a" / "home"
    home.mkdir(parents=True, mode=0o755)
    assert Settings(home=home).make_home() == home
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
