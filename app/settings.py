"""Every setting of the service, from environment variables PURSE_*. Each has its line in docs/settings.md."""

import ipaddress
import os
import re
import shutil
from pathlib import Path
from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from purse.wire.tokens import Role

SHORTEST_TOKEN = 32
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]


class Settings(BaseSettings):
    """What an operator may choose. Nothing here weakens a privacy promise."""

    model_config = SettingsConfigDict(
        env_prefix="PURSE_", frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True
    )

    home: Annotated[Path, Field(description="Where all state lives: database, columns, keys. Mode 0700.")] = Path(
        "purse-data"
    )
    bootstrap_token: Annotated[
        SecretStr | None,
        Field(description="A steward token of 32 characters or more, made valid at start; one is drawn if unset."),
    ] = None
    max_token_lifetime: Annotated[
        int | None,
        Field(ge=60, description="The longest life of a token in seconds, for those too that ask for no end."),
    ] = None
    oidc_issuer: Annotated[
        str | None, Field(description="The provider of [sign-on](sign-on.md), exactly as its tokens name it; https.")
    ] = None
    oidc_audience: Annotated[
        str | None, Field(min_length=1, description="Whom its tokens must be for: this service's name there.")
    ] = None
    oidc_algorithms: Annotated[
        tuple[Algorithm, ...], Field(min_length=1, description="The signatures taken, asymmetric ones alone; a list.")
    ] = ("RS256", "ES256")
    oidc_subject_claim: Annotated[
        str, Field(min_length=1, description="The claim that names a person or program, for good.")
    ] = "sub"
    oidc_groups_claim: Annotated[str, Field(min_length=1, description="The claim that lists their groups.")] = "groups"
    oidc_roles: Annotated[
        dict[str, Role],
        Field(description="Groups and their roles; the first that fits. Who has none is let in nowhere."),
    ] = {}
    oidc_grants: Annotated[
        dict[str, tuple[str, ...]],
        Field(description="Groups and the datasets, by name or id, that their analysts know."),
    ] = {}
    oidc_redirect: Annotated[
        str | None,
        Field(
            description="`https://<this service>/pages/sign-in/return`, as it is registered there: signs in on pages."
        ),
    ] = None
    oidc_client_secret: Annotated[
        SecretStr | None, Field(description="For a provider that wants one beside PKCE; no browser sees it.")
    ] = None
    oidc_scopes: Annotated[
        tuple[str, ...], Field(description="Scopes beside `openid` that a sign-in on pages asks for; a list.")
    ] = ()
    oidc_skew_seconds: Annotated[
        int, Field(ge=0, le=300, description="How far the provider's clock and ours may be apart.")
    ] = 60
    oidc_stale_seconds: Annotated[
        int, Field(ge=60, le=604_800, description="How long the keys last seen hold while the provider is away.")
    ] = 14_400
    metrics_token: Annotated[
        SecretStr | None,
        Field(description="A monitor's token of 32 characters or more, for `GET /metrics` and nothing else."),
    ] = None
    storage_url: Annotated[
        str | None,
        Field(
            description="Where datasets are kept as partitions: `file:///folder` or `s3://bucket/prefix`, credentials "
            "left to each process's own environment."
        ),
    ] = None
    host: Annotated[str, Field(description="The address to listen on.")] = "127.0.0.1"
    root_path: Annotated[
        str,
        Field(
            pattern=r"^(/[A-Za-z0-9._~-]+)*$", description="The prefix under which a proxy shows the service: /purse."
        ),
    ] = ""
    trusted_proxies: Annotated[
        str | None,
        Field(description="Addresses and networks, by commas, whose X-Forwarded-For and -Proto are believed."),
    ] = None
    port: Annotated[int, Field(ge=0, le=65535, description="The port to listen on.")] = 8000
    database_url: Annotated[
        str | None,
        Field(repr=False, description="postgresql://... or sqlite:///<file>; purse.sqlite3 in the home if unset."),
    ] = None
    epoch_file: Annotated[
        Path | None,
        Field(description="Where each ledger's last head is kept, best on another disk; `epoch` in the home if unset."),
    ] = None
    workers: Annotated[int, Field(ge=1, le=256, description="Local worker processes, if no scheduler is named.")] = 2
    scheduler: Annotated[
        str | None, Field(description="Address of a Dask scheduler to use instead of local processes.")
    ] = None
    scheduler_ca: Annotated[
        Path | None, Field(description="That scheduler's certificate authority, a PEM file; it speaks mutual TLS.")
    ] = None
    scheduler_cert: Annotated[Path | None, Field(description="Our certificate for that scheduler, a PEM file.")] = None
    scheduler_key: Annotated[Path | None, Field(description="The key of that certificate, a PEM file.")] = None
    min_free_bytes: Annotated[
        int, Field(ge=0, description="With less room on the home's disk it is not ready and starts no job.")
    ] = 2**28
    max_connections: Annotated[
        int, Field(ge=4, le=100_000, description="The most connections open at once; the idle ones make room first.")
    ] = 512
    max_requests: Annotated[
        int, Field(ge=1, le=100_000, description="The most requests of one caller, or address, answered at once.")
    ] = 128
    caller_rate: Annotated[
        int,
        Field(
            ge=1,
            le=10**6,
            description="Requests a second of one caller; ten seconds of them at once. A dear one counts as several.",
        ),
    ] = 100
    stranger_rate: Annotated[
        int, Field(ge=1, le=10**6, description="The same of one address, for those without a valid token.")
    ] = 50
    total_rate: Annotated[
        int, Field(ge=2, le=10**6, description="The same of all together; strangers have half of it.")
    ] = 2000
    max_streams: Annotated[
        int, Field(ge=1, le=100_000, description="The most event streams open at once; 8 of them for one caller.")
    ] = 128
    max_upload_bytes: Annotated[int, Field(ge=1, description="The largest file taken as a dataset.")] = 4 * 2**30
    upload_seconds: Annotated[
        int,
        Field(ge=60, le=2_592_000, description="How long an upload that is not yet a dataset waits for its next byte."),
    ] = 86_400
    max_gradient_evaluations: Annotated[
        float, Field(gt=0, description="The most per-row gradients, or coordinates of noise, that one job may plan.")
    ] = 1e11
    max_answers: Annotated[int, Field(gt=0, description="The most private answers that one job may plan.")] = 200_000
    max_queued_per_analyst: Annotated[
        int, Field(ge=1, description="The most jobs of one analyst that wait, over all servers.")
    ] = 1000
    max_queued_per_dataset: Annotated[
        int, Field(ge=1, description="The most jobs on one dataset that wait, over all servers.")
    ] = 10_000
    max_running_per_analyst: Annotated[
        int | None, Field(ge=1, description="The most jobs of one analyst that run, over all servers; any if unset.")
    ] = None
    max_running_per_dataset: Annotated[
        int | None, Field(ge=1, description="The most jobs on one dataset that run, over all servers; any if unset.")
    ] = None
    max_webhooks: Annotated[
        int, Field(ge=0, le=100, description="The most [webhooks](webhooks.md) of one analyst; 0 for none.")
    ] = 5
    webhook_hosts: Annotated[
        tuple[str, ...],
        Field(description="Hosts that webhooks may reach at private addresses and without TLS; a list."),
    ] = ()
    calculations: Annotated[
        int, Field(ge=1, le=64, description="How many prices are calculated at once, each on a core of its own.")
    ] = 2
    calculation_seconds: Annotated[
        int, Field(ge=1, le=3600, description="The most CPU seconds that one price may take.")
    ] = 60
    lease_seconds: Annotated[float, Field(gt=0, le=3600, description="How long a silent server keeps its jobs.")] = 30.0
    renew_seconds: Annotated[
        float, Field(gt=0, description="How often it says that it lives; at most half of that.")
    ] = 10.0
    drain_seconds: Annotated[
        float, Field(ge=0, le=86_400, description="How long a server that is told to stop lets its jobs go on.")
    ] = 5.0
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], Field(description="The least severity that is logged.")
    ] = "info"
    log_format: Annotated[
        Literal["text", "json"], Field(description="A line of the log is text for people, or a JSON object.")
    ] = "text"
    otlp_endpoint: Annotated[
        str | None,
        Field(
            pattern="^https?://",
            description="Where spans go by OTLP over HTTP, .../v1/traces; with the extra `tracing`.",
        ),
    ] = None

    @field_validator("home")
    @classmethod
    def _absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @field_validator("bootstrap_token", "metrics_token")
    @classmethod
    def _long_enough(cls, token: SecretStr | None) -> SecretStr | None:
        if token is None:
            return None
        text = token.get_secret_value()
        if len(text) < SHORTEST_TOKEN or len(text) > 512 or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError(f"must be {SHORTEST_TOKEN} to 512 printable ASCII characters without spaces")
        return token

    @field_validator("database_url")
    @classmethod
    def _known(cls, url: str | None) -> str | None:
        if url == "sqlite:///" or not (url or "postgresql://").startswith(("sqlite:///", "postgresql://")):
            raise ValueError("must be postgresql://..., or sqlite:/// and the path of a file")
        return url

    @field_validator("trusted_proxies")
    @classmethod
    def _of_networks(cls, proxies: str | None) -> str | None:
        for network in (proxies or "0.0.0.0").split(","):  # nobody is everybody: no asterisk
            ipaddress.ip_network(network.strip())
        return proxies

    @field_validator("storage_url")
    @classmethod
    def _storage(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "file:///")
        if parts.scheme not in ("file", "s3") or parts.fragment or "@" in parts.netloc:
            raise ValueError("must be file:///folder or s3://bucket/prefix, without credentials")
        if url is not None and not (parts.path.strip("/") if parts.scheme == "file" else parts.netloc):
            raise ValueError("must name a folder or a bucket")
        return url

    @model_validator(mode="after")
    def _renews_in_time(self) -> Self:
        if self.renew_seconds > self.lease_seconds / 2:
            raise ValueError("renew_seconds must be at most half of lease_seconds")
        return self

    @model_validator(mode="after")
    def _authenticates(self) -> Self:
        if self.scheduler is not None and (
            not self.scheduler.startswith("tls://")
            or None in (self.scheduler_ca, self.scheduler_cert, self.scheduler_key)
        ):
            raise ValueError("a scheduler is a tls:// address, and needs scheduler_ca, scheduler_cert, scheduler_key")
        return self

    @model_validator(mode="after")
    def _knows_whom_to_believe(self) -> Self:
        given = (self.oidc_issuer is not None, self.oidc_audience is not None, bool(self.oidc_roles))
        if any(given) and not all(given):
            raise ValueError("sign-on needs all of oidc_issuer, oidc_audience and oidc_roles")
        if self.oidc_issuer is not None and not is_confidential(self.oidc_issuer):
            raise ValueError("oidc_issuer must be an https:// address without query and fragment")
        back = self.oidc_redirect
        if back is not None and not (all(given) and is_confidential(back) and back.endswith("/pages/sign-in/return")):
            raise ValueError("oidc_redirect needs oidc_issuer, and is an https:// address ending /pages/sign-in/return")
        return self

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.home / 'purse.sqlite3'}"

    @property
    def epoch(self) -> Path:
        """The file of the ledgers' heads."""
        return self.epoch_file.expanduser().absolute() if self.epoch_file else self.home / "epoch"

    @property
    def has_room(self) -> bool:
        """Whether the home's disk has room to work with."""
        return shutil.disk_usage(self.home).free >= self.min_free_bytes

    def make_home(self) -> Path:
        """The home, made if it was not there, and closed to everybody else."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.home.chmod(0o700)
        return self.home


def is_confidential(address: object) -> bool:
    """Whether nobody on the way can read along or answer instead: TLS, or this machine itself."""
    if not isinstance(address, str) or not re.fullmatch(r"https?://[^\s?#@\\]+", address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in ("127.0.0.1", "::1", "localhost")


def forget_secrets() -> None:
    """Takes what opens the service or its database out of the environment: no process started later inherits it."""
    for name in ("PURSE_BOOTSTRAP_TOKEN", "PURSE_METRICS_TOKEN", "PURSE_DATABASE_URL", "PURSE_OIDC_CLIENT_SECRET"):
        os.environ.pop(name, None)
