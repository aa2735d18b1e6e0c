"""The modules that a command loads when it runs: `late.ingest` loads `app.sources.ingest` at its first use.

Lists of commands, help and completion do without them, and so do commands of an installation that has only the client.
"""

from importlib import import_module as load  # noqa: TID251 (a test loads every module and every command)
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from accounting.records import heads, ledger, offline, signing
    from app import main
    from app.calculation import calculators
    from app.cli import commands, failures, local_forecasts, proposal, running, serving, state
    from app.datasets import values
    from app.demo import script
    from app.identity import home, service
    from app.jobs import rollback
    from app.ledger import audit, epoch, keys, moving
    from app.operations import backup, logs
    from app.persistence import session
    from app.sources import ingest, persons
    from app.worker import certificates, forked, joining, lives
    from solvers.audit import cases, findings

MODULES: Final = {
    "accounting.records": ("heads", "ledger", "offline", "signing"),
    "app": ("main",),
    "app.calculation": ("calculators",),
    "app.cli": ("commands", "failures", "local_forecasts", "proposal", "running", "serving", "state"),
    "app.datasets": ("values",),
    "app.demo": ("script",),
    "app.identity": ("home", "service"),
    "app.jobs": ("rollback",),
    "app.ledger": ("audit", "epoch", "keys", "moving"),
    "app.operations": ("backup", "logs"),
    "app.persistence": ("session",),
    "app.sources": ("ingest", "persons"),
    "app.worker": ("certificates", "forked", "joining", "lives"),
    "solvers.audit": ("cases", "findings"),
}


def __getattr__(name: str) -> ModuleType:
    """Return the module of this name; load it at its first use."""
    package = next((package for package, names in MODULES.items() if name in names), None)
    if package is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return load(f"{package}.{name}")
