"""Receipts of sessions that have ended. A receipt follows from what the ledger states, so it is not stored."""

import sqlalchemy as sa

from accounting.records.documents import canonical_text
from accounting.records.session_receipt import SessionEnd, build
from accounting.records.sessions import Certificate
from app.http.errors import ApiError
from app.identity.store import Principal
from app.ledger import store as ledger
from app.ledger.keys import SigningKeys
from app.ledger.registrations import declared
from app.persistence.session import Database
from app.persistence.tables import datasets
from app.sessions import service, settling, store
from app.sessions.store import SessionRow

_NONE = "The ledger does not state how this session ended, so it has no receipt. Its whole reservation stays charged."


def read(database: Database, keys: SigningKeys, principal: Principal, session_id: str) -> str:
    """Return the signed receipt of a session as canonical JSON.

    Raises
    ------
    ApiError
        not_found; session_open; session_ended if the ledger does not state its end.
    """
    with database.read() as connection:
        row = service.visible(connection, principal, session_id)
    if row.has_expired(database.timestamp()):
        with database.write() as connection:
            row = service.locked(connection, principal, session_id)
            row = settling.settle_expired(connection, row, database.timestamp())
    if row.state == "open":
        raise ApiError("session_open")
    with database.read() as connection:
        end = _end(connection, row)
    receipt = build(end)
    return canonical_text({"receipt": receipt, "signature": keys.sign(receipt)})


def _end(connection: sa.Connection, row: SessionRow) -> SessionEnd:
    if row.settled is None:
        raise ApiError("session_ended", _NONE)
    its_dataset = sa.select(datasets.c.rows, datasets.c.spec).where(datasets.c.id == row.dataset_id)
    dataset = connection.execute(its_dataset).one()  # also of a dataset that was withdrawn
    [entry] = ledger.entries(connection, row.dataset_id, row.settled - 1, 1)
    reserved = store.read_charge(row.reserved)
    charged = store.read_charge(row.charged)
    return SessionEnd(
        id=row.id.replace("sess_", "rcpt_"),
        dataset=row.dataset_id,
        dataset_name=row.dataset_name,
        records=dataset.rows,
        unit=declared(dataset.spec).protected,
        analyst=row.analyst,
        session=row.id,
        plan=row.planned(ledger.neighbors(connection, row.dataset_id)),
        certificate=Certificate(reserved.epsilon, reserved.delta, reserved.accountant, reserved.accountant_version),
        entry=entry,
        charged_epsilon=charged.epsilon,  # as the pool of calculations found it when the session was closed
        title=row.title,
        share=charged.stated_share,
    )
