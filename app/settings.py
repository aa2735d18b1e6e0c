"""Settings of the service, read from environment variables PURSE_*. docs/settings.md lists them all."""

import ipaddress
import os
import re
import shutil
from pathlib import Path
from typing import Literal, Self
from urllib.parse import unquote, urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from purse.wire.tokens import Role

SHORTEST_TOKEN = 32
# One spelling for each place: Arrow would accept others, which could not be compared.
_STORAGE_URL = re.compile(r"(file:///|s3://[A-Za-z0-9._-]+(?=[/?]|$))[^\s#]*")
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "Ed25519", "EdDSA"]


class Settings(BaseSettings):
    """Settings that an operator may choose. None of them weakens a privacy guarantee.

    The docstring of each is its description in docs/settings.md.
    """

    model_config = SettingsConfigDict(
        env_prefix="PURSE_",
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    home: Path = Path("purse-data")
    """Folder of all state: database, columns, keys. Mode 0700."""
    bootstrap_token: SecretStr | None = None
    """First steward token, 32 to 512 characters. Drawn at random if unset."""
    max_token_lifetime: int | None = Field(default=None, ge=60)
    """Longest lifetime of any token, in seconds. No limit if unset."""
    oidc_issuer: str | None = None
    """Address of the [sign-on](sign-on.md) provider (https), exactly as its tokens state it in `iss`."""
    oidc_audience: str | None = Field(default=None, min_length=1)
    """Required `aud` claim: this service's client id at the provider."""
    oidc_algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    """Accepted signature algorithms (asymmetric only), a list."""
    oidc_subject_claim: str = Field(default="sub", min_length=1)
    """Claim that permanently identifies a person or program."""
    oidc_groups_claim: str = Field(default="groups", min_length=1)
    """Claim that lists a caller's groups."""
    oidc_roles: dict[str, Role] = {}
    """Roles by provider group. The first matching group decides; users without one get 403."""
    oidc_grants: dict[str, tuple[str, ...]] = {}
    """Datasets (names or ids) by provider group. Analysts in the group have access to them."""
    oidc_redirect: str | None = None
    """`https://<this service>/pages/sign-in/return`, as registered. Enables sign-in on pages."""
    oidc_client_secret: SecretStr | None = None
    """Client secret, if the provider requires one in addition to PKCE."""
    oidc_scopes: tuple[str, ...] = ()
    """Scopes that a sign-in on the pages requests in addition to `openid`, a list."""
    oidc_skew_seconds: int = Field(default=60, ge=0, le=300)
    """Accepted difference to the provider's clock, in seconds."""
    oidc_stale_seconds: int = Field(default=14_400, ge=60, le=604_800)
    """Seconds for which the provider's known keys stay valid while it is unreachable."""
    metrics_token: SecretStr | None = None
    """Token for `GET /metrics` only, 32 to 512 characters."""
    storage_url: str | None = None
    """Storage of partitioned datasets, `file:///folder` or `s3://bucket/prefix`, without credentials."""
    import_url: str | None = None
    """Folder or prefix whose files stewards may [import](datasets.md#import-a-file), written as PURSE_STORAGE_URL."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    root_path: str = Field(default="", pattern=r"^(/[A-Za-z0-9._~-]+)*$")
    """Path prefix under which a proxy shows the service, such as `/purse`."""
    trusted_proxies: str | None = None
    """Proxies whose X-Forwarded-For and -Proto headers are used: addresses or networks, with commas."""
    port: int = Field(default=8000, ge=0, le=65535)
    """TCP port to listen on."""
    database_url: str | None = Field(default=None, repr=False)
    """Database address: `postgresql://...` or `sqlite:///<file>`. `purse.sqlite3` in the home if unset."""
    epoch_file: Path | None = None
    """File of each ledger's newest head, best on another disk. `epoch` in the home if unset."""
    workers: int = Field(default=2, ge=1, le=256)
    """Number of local worker processes, if no scheduler is set."""
    scheduler: str | None = None
    """Address of a Dask scheduler (tls://...) that replaces the local workers."""
    scheduler_ca: Path | None = None
    """Certificate authority of the scheduler's mutual TLS, a PEM file."""
    scheduler_cert: Path | None = None
    """Server's certificate for the scheduler, a PEM file."""
    scheduler_key: Path | None = None
    """Private key of that certificate, a PEM file."""
    min_free_bytes: int = Field(default=2**28, ge=0)
    """Free bytes required on the home's disk. With less, no job starts."""
    max_connections: int = Field(default=512, ge=4, le=100_000)
    """Maximum number of open connections. Idle ones are closed first."""
    max_requests: int = Field(default=128, ge=1, le=100_000)
    """Maximum number of simultaneous requests of one caller or address."""
    caller_rate: int = Field(default=100, ge=1, le=10**6)
    """Requests per second of one caller, with bursts of ten seconds' worth. Costly ones count more."""
    stranger_rate: int = Field(default=50, ge=1, le=10**6)
    """Requests per second of one address without a valid token, with bursts of ten seconds' worth."""
    total_rate: int = Field(default=2000, ge=2, le=10**6)
    """Requests per second of all callers. At most half of them may lack a valid token."""
    max_streams: int = Field(default=128, ge=1, le=100_000)
    """Maximum number of open event streams. One caller may have 8."""
    max_upload_bytes: int = Field(default=4 * 2**30, ge=1)
    """Maximum size of an uploaded file in bytes, compressed and uncompressed."""
    max_import_bytes: int = Field(default=2**38, ge=1)
    """Maximum size of a file below PURSE_IMPORT_URL in bytes, compressed and uncompressed."""
    upload_seconds: int = Field(default=86_400, ge=60, le=2_592_000)
    """Seconds without new bytes after which an unfinished upload is deleted."""
    max_gradient_evaluations: float = Field(default=1e11, gt=0)
    """Maximum number of per-row gradients, or noise coordinates, in a job."""
    max_answers: int = Field(default=200_000, gt=0)
    """Maximum number of private answers in one job."""
    max_queued_per_analyst: int = Field(default=1000, ge=1)
    """Maximum number of one analyst's waiting jobs, over all servers."""
    max_queued_per_dataset: int = Field(default=10_000, ge=1)
    """Maximum number of a dataset's waiting jobs, over all servers."""
    max_running_per_analyst: int | None = Field(default=None, ge=1)
    """Maximum number of one analyst's running jobs, over all servers. No limit if unset."""
    max_running_per_dataset: int | None = Field(default=None, ge=1)
    """Maximum number of a dataset's running jobs, over all servers. No limit if unset."""
    max_open_sessions_per_analyst: int = Field(default=100, ge=1)
    """Maximum number of one analyst's open [sessions](http.md#programs-elsewhere), over all servers."""
    max_webhooks: int = Field(default=5, ge=0, le=100)
    """Maximum number of [webhooks](webhooks.md) of one analyst. 0 disables them."""
    webhook_hosts: tuple[str, ...] = ()
    """Hosts that webhooks may reach at private addresses or without TLS, a list."""
    calculations: int = Field(default=2, ge=1, le=64)
    """Number of simultaneous price calculations; each uses one core."""
    calculation_seconds: int = Field(default=60, ge=1, le=3600)
    """Maximum CPU time of one price calculation, in seconds."""
    lease_seconds: float = Field(default=30.0, gt=0, le=3600)
    """Seconds without a heartbeat after which other servers take over a server's jobs."""
    renew_seconds: float = Field(default=10.0, gt=0)
    """Heartbeat interval in seconds; at most half of PURSE_LEASE_SECONDS."""
    drain_seconds: float = Field(default=5.0, ge=0, le=86_400)
    """Seconds for which a stopping server lets jobs continue."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest severity that is logged."""
    log_format: Literal["text", "json"] = "text"
    """Log format: `text`, or `json` (one object per line)."""
    otlp_endpoint: str | None = Field(default=None, pattern="^https?://")
    """OTLP/HTTP address for traces (.../v1/traces). Needs the extra `tracing`."""

    @field_validator("home")
    @classmethod
    def _make_absolute(cls, home: Path) -> Path:
        return home.expanduser().absolute()

    @field_validator("bootstrap_token", "metrics_token")
    @classmethod
    def _check_token(cls, token: SecretStr | None) -> SecretStr | None:
        if token is None:
            return None
        text = token.get_secret_value()
        if len(text) < SHORTEST_TOKEN or len(text) > 512 or not text.isascii() or not text.isprintable() or " " in text:
            raise ValueError(f"must be {SHORTEST_TOKEN} to 512 printable ASCII characters without spaces")
        return token

    @field_validator("database_url")
    @classmethod
    def _check_database_url(cls, url: str | None) -> str | None:
        if url == "sqlite:///" or not (url or "postgresql://").startswith(("sqlite:///", "postgresql://")):
            raise ValueError("must be postgresql://..., or sqlite:/// and the path of a file")
        return url

    @field_validator("trusted_proxies")
    @classmethod
    def _check_proxies(cls, proxies: str | None) -> str | None:
        for network in (proxies or "0.0.0.0").split(","):  # without proxies, any valid network passes; "*" never does
            ipaddress.ip_network(network.strip())
        return proxies

    @field_validator("storage_url", "import_url")
    @classmethod
    def _check_storage_url(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "file:///")
        if not _STORAGE_URL.fullmatch(url or "file:///"):
            raise ValueError("must be file:///folder or s3://bucket/prefix, without credentials, port, spaces or `#`")
        if url is not None and not (parts.path.strip("/") if parts.scheme == "file" else parts.netloc):
            raise ValueError("must name a folder or a bucket")
        return url

    @model_validator(mode="after")
    def _check_heartbeat(self) -> Self:
        if self.renew_seconds > self.lease_seconds / 2:
            raise ValueError("renew_seconds must be at most half of lease_seconds")
        return self

    @model_validator(mode="after")
    def _check_import_url(self) -> Self:
        own = [("home", self.home.as_uri()), ("storage_url", self.storage_url)]
        for name, url in own:
            if self.import_url is not None and url is not None and _overlap(self.import_url, url):
                raise ValueError(
                    f"import_url and {name} must not contain each other, because stewards may register all files below "
                    "import_url"
                )
        return self

    @model_validator(mode="after")
    def _check_scheduler(self) -> Self:
        if self.scheduler is not None and (
            not self.scheduler.startswith("tls://")
            or None in (self.scheduler_ca, self.scheduler_cert, self.scheduler_key)
        ):
            raise ValueError("scheduler must be a tls:// address, with scheduler_ca, scheduler_cert and scheduler_key")
        return self

    @model_validator(mode="after")
    def _check_sign_on(self) -> Self:
        is_set = (self.oidc_issuer is not None, self.oidc_audience is not None, bool(self.oidc_roles))
        if any(is_set) and not all(is_set):
            raise ValueError("sign-on needs all of oidc_issuer, oidc_audience and oidc_roles")
        if self.oidc_issuer is not None and not is_confidential(self.oidc_issuer):
            raise ValueError("oidc_issuer must be an https:// address without query and fragment")
        redirect = self.oidc_redirect
        is_return = redirect is not None and redirect.endswith("/pages/sign-in/return")
        if redirect is not None and not (all(is_set) and is_confidential(redirect) and is_return):
            raise ValueError("oidc_redirect needs oidc_issuer, and must be https:// and end in /pages/sign-in/return")
        return self

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{self.home / 'purse.sqlite3'}"

    @property
    def epoch(self) -> Path:
        """The file that stores the newest head of every ledger."""
        return self.epoch_file.expanduser().absolute() if self.epoch_file else self.home / "epoch"

    @property
    def has_free_disk(self) -> bool:
        """Whether the home's disk has at least `min_free_bytes` free."""
        return shutil.disk_usage(self.home).free >= self.min_free_bytes

    def make_home(self) -> Path:
        """Create the home if it does not exist, make it private to its owner, and return its path."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.home.chmod(0o700)
        return self.home


def _overlap(first: str, second: str) -> bool:
    """Return whether two URLs of folders or prefixes are the same, or one lies below the other."""
    (bucket, path), (other_bucket, other_path) = map(_folder_of, (first, second))
    return bucket == other_bucket and (path.is_relative_to(other_path) or other_path.is_relative_to(path))


def _folder_of(url: str) -> tuple[tuple[str, str], Path]:
    parts = urlsplit(url)
    path = Path("/" + unquote(parts.path).strip("/"))
    return (parts.scheme, parts.netloc), path.resolve() if parts.scheme == "file" else path


def is_confidential(address: object) -> bool:
    """Return whether no third party can read or forge messages to the address: https, or this machine itself."""
    if not isinstance(address, str) or not re.fullmatch(r"https?://[^\s?#@\\]+", address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in ("127.0.0.1", "::1", "localhost")


def forget_secrets() -> None:
    """Remove secrets from the environment, so that later processes do not inherit them."""
    for name in ("PURSE_BOOTSTRAP_TOKEN", "PURSE_METRICS_TOKEN", "PURSE_DATABASE_URL", "PURSE_OIDC_CLIENT_SECRET"):
        os.environ.pop(name, None)
