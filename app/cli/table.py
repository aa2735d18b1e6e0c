"""The table of commands: words, function, summary, and section of `purse --help`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Parameters
    ----------
    words : the words after `purse`
    target : module in `app.cli` and function
    summary : one line of help, at most 60 characters
    """

    words: str
    target: str
    summary: str


GROUPS: Final[Mapping[str, str]] = {
    "dataset": "Declare, change, freeze or erase a dataset",
    "dataset sample": "Attach a public file of rows, for twins and forecasts",
    "jobs": "List, show, follow and cancel jobs",
    "stats": "Release counts, means and other statistics",
    "sessions": "Reserve budget for programs elsewhere",
    "grant": "Give analysts access to a dataset",
    "allot": "Limit what one analyst may spend",
    "receipt": "Save receipts, and verify them offline",
    "ledger": "Read, save and verify ledgers",
    "keys": "List, save and rotate the signing keys",
    "token": "Create, list, rotate and revoke tokens",
    "webhook": "Have an address called when a job ends",
    "server": "Start, migrate, check and back up a server",
    "worker": "Run jobs of a server on this machine",
}
"""The summary of each group of commands."""

COMMANDS: Final[Sequence[Command]] = (
    Command("demo", "operate.demo", "Run the whole service on a real dataset"),
    Command("serve", "operate.serve", "Start the server"),
    Command("fit", "fit.fit", "Train one private model on a local file"),
    Command("check", "check.check", "Check a local file against its declaration"),
    Command("upload", "data.upload", "Register a file as a dataset"),
    Command("datasets", "data.datasets", "List datasets, or show the columns of one"),
    Command("dataset import", "data.import_file", "Register a file from the operator's storage as a dataset"),
    Command("dataset declare", "data.declare", "Register a dataset whose records are elsewhere"),
    Command("dataset amend", "stewardship.amend", "Change a dataset's name, budget or rule for sessions"),
    Command("dataset freeze", "stewardship.freeze", "Block all spending on a dataset"),
    Command("dataset unfreeze", "stewardship.unfreeze", "Allow spending on a dataset again"),
    Command("dataset erase", "stewardship.erase", "Delete a dataset's values permanently"),
    Command("dataset charge", "outside.charge", "Charge a dataset for results computed elsewhere"),
    Command("dataset twin", "forecasts.twin", "Write synthetic rows to try code on"),
    Command("dataset sample set", "samples.attach", "Attach a public file of rows"),
    Command("dataset sample show", "samples.show", "Show the attached public file"),
    Command("dataset sample delete", "samples.delete", "Remove the attached public file"),
    Command("forecast", "forecasts.forecast", "Estimate what noise costs at each epsilon"),
    Command("quote", "jobs.quote", "Show the price of a job and charge nothing"),
    Command("submit", "jobs.submit", "Charge the budget and train a private model"),
    Command("tune", "jobs.tune", "Train several candidates and keep the best"),
    Command("jobs list", "jobs.list_jobs", "List the jobs that you may see"),
    Command("jobs show", "jobs.show", "Show the state and price of a job"),
    Command("jobs wait", "jobs.wait_for", "Wait until a job ends"),
    Command("jobs cancel", "jobs.cancel", "Cancel a job"),
    Command("model", "jobs.model", "Show or save the model of a job"),
    Command("evaluate", "releases.evaluate", "Measure a model on the holdout set"),
    Command("predict", "predictions.predict", "Apply a released model to a CSV file"),
    Command("stats count", "releases.count", "Count rows by the values of one or more columns"),
    Command("stats table", "releases.table", "Release a cross table of two columns"),
    Command("stats means", "releases.means", "Release means of numbers and shares of categories"),
    Command("stats quantiles", "releases.quantiles", "Release quantiles of numbers"),
    Command("stats covariance", "releases.covariance", "Release covariances and correlations"),
    Command("stats table1", "releases.table1", "Count and describe groups of rows"),
    Command("stats profile", "releases.profile", "Release or show a summary of all columns"),
    Command("budget", "data.budget", "Show the spent and the remaining budget"),
    Command("sessions open", "sessions.open_session", "Reserve budget for answers that your program computes"),
    Command("sessions list", "sessions.list_sessions", "List the sessions that you may see"),
    Command("sessions show", "sessions.show", "Show a session with its plan and charge"),
    Command("sessions record", "sessions.record", "Record answers before your program computes them"),
    Command("sessions close", "sessions.close", "End a session and refund its unused part"),
    Command("sessions receipt", "sessions.receipt", "Save the receipt of an ended session"),
    Command("grant set", "sharing.grant", "Give an analyst access to a dataset"),
    Command("grant list", "sharing.list_grants", "List the analysts with access to a dataset"),
    Command("grant revoke", "sharing.revoke_grant", "End an analyst's access to a dataset"),
    Command("allot set", "sharing.allot", "Limit or reserve an analyst's part of a budget"),
    Command("allot list", "sharing.list_allotments", "List each analyst's limit and its use"),
    Command("allot revoke", "sharing.revoke_allotment", "Remove an analyst's limit"),
    Command("calibrate", "outside.calibrate", "Compute the noise for a privacy target"),
    Command("receipt get", "receipts.get", "Save a job's receipt and the server's keys"),
    Command("receipt verify", "receipts.verify", "Verify a receipt without a server"),
    Command("receipt ask", "receipts.ask", "Have the server verify a receipt"),
    Command("ledger show", "ledger.show", "Show the entries of a dataset's ledger"),
    Command("ledger export", "ledger.export", "Write a dataset's ledger to a file"),
    Command("ledger head", "ledger.head", "Show the newest entry's number and hash"),
    Command("ledger verify", "ledger.verify", "Verify an exported ledger, or all ledgers of a server"),
    Command("ledger new-key", "ledger.new_key", "Create a new signing key after the loss of the old one"),
    Command("ledger accept-rollback", "ledger.accept_rollback", "Continue from an older copy of the database"),
    Command("keys list", "keys.list_keys", "List the server's public keys"),
    Command("keys export", "keys.export", "Save the server's public keys"),
    Command("keys rotate", "keys.rotate", "Sign with a new key"),
    Command("audit", "audit.audit", "Attack a method to check its guarantee"),
    Command("token create", "tokens.create", "Create an access token"),
    Command("token list", "tokens.list_tokens", "List valid tokens"),
    Command("token rotate", "tokens.rotate", "Replace the secret of a token"),
    Command("token revoke", "tokens.revoke", "Make a token invalid"),
    Command("webhook add", "webhooks.add", "Register an address"),
    Command("webhook list", "webhooks.list_webhooks", "List webhooks and their deliveries"),
    Command("webhook delete", "webhooks.delete", "Remove a webhook"),
    Command("server start", "operate.serve", "Start the server"),
    Command("server health", "operate.health", "Check whether the server is ready"),
    Command("server migrate", "operate.migrate", "Update the database to this version"),
    Command("server backup", "operate.backup", "Copy a running server to a folder"),
    Command("server copy-database", "operate.copy_database", "Copy a server to another database"),
    Command("server scheduler", "machines.scheduler", "Distribute jobs to workers on other machines"),
    Command("worker run", "machines.worker", "Run jobs on this machine until stopped"),
    Command("worker certificate", "machines.certificate", "Create a certificate for a server or worker"),
)

SUMMARIES: Final[Mapping[str, str]] = {**GROUPS, **{command.words: command.summary for command in COMMANDS}}
"""The summary of each command and each group."""
SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Get started": ("demo", "serve", "fit"),
    "Data": ("check", "upload", "datasets", "dataset"),
    "Models and statistics": (
        *("forecast", "quote", "submit", "tune", "jobs"),
        *("model", "evaluate", "predict", "stats"),
    ),
    "Budgets and access": ("budget", "sessions", "grant", "allot", "calibrate"),
    "Receipts and audit": ("receipt", "ledger", "keys", "audit"),
    "Operations": ("token", "webhook", "server", "worker"),
}
"""The sections of `purse --help`."""
