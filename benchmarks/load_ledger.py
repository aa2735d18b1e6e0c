"""A home with a long ledger and a long queue, as it is after many submitted jobs."""

import json
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from accounting.privacy import Privacy
from accounting.records.documents import canonical
from accounting.records.events import Charged, Failed, Started
from accounting.records.filters import cost_from_json, cost_to_json
from accounting.records.ledger import advance
from app.ledger import store as ledger
from app.persistence.session import Database, new_id
from app.persistence.tables import analyst_spend, jobs, ledger_entries, ledgers

CHARGES, QUEUED = 100_000, 10_000


def grow(home: Path, dataset: str, charges: int = CHARGES, queued: int = QUEUED, *, ended: bool = False) -> None:
    """Add charges to a dataset's ledger, each like that of its first job, while no server runs.

    The sums of the ledger still agree with its entries.

    Parameters
    ----------
    charges : number of added charges
    queued : number of jobs, the last ones, that are queued; the others have failed
    ended : whether each charge is followed by the entries of a job that started and failed
    """
    database = Database(f"sqlite:///{home / 'purse.sqlite3'}")
    with database.write() as connection:
        first = connection.execute(sa.select(jobs).where(jobs.c.dataset_id == dataset).limit(1)).one()
        last = connection.execute(sa.select(sa.func.max(jobs.c.number))).scalar_one()
        cost = cost_from_json(json.loads(first.charge)["cost"])
        state = ledger.load_state(connection, dataset)
        assert state is not None
        entries, added = [], []
        for number in range(1, charges + 1):
            job = new_id("job")
            charged = Charged(job, cost, Privacy(0.01, 1e-6), first.analyst, dataset, "dp_gd")
            for event in (charged, Started(job, 1), Failed(job, 1)) if ended else (charged,):
                state, entry = advance(state, event, first.created_at)
                entries.append(entry.to_json() | {"ledger_id": dataset, "body": canonical(entry.body).decode()})
            added.append(_job(first, job, last + number, is_queued=number > charges - queued))
        mine = (analyst_spend.c.ledger_id == dataset) & (analyst_spend.c.owner_id == first.owner_id)
        before = connection.execute(sa.select(analyst_spend).where(mine)).one()
        spent = [a + charges * b for a, b in zip(cost_from_json(json.loads(before.spent)), cost, strict=True)]
        total = {"charges": before.charges + charges, "spent": canonical(cost_to_json(tuple(spent))).decode()}
        connection.execute(sa.insert(ledger_entries), entries)
        connection.execute(sa.insert(jobs), added)
        connection.execute(sa.update(analyst_spend).where(mine).values(**total))
        text = canonical(state.to_json()).decode()
        connection.execute(sa.update(ledgers).where(ledgers.c.id == dataset).values(state=text))
    database.close()


def _job(template: Any, job: str, number: int, *, is_queued: bool) -> dict[str, Any]:
    ended = {"state": "failed", "error": "job_failed", "finished_at": template.created_at}
    waiting = {"state": "queued", "error": None, "finished_at": None}
    own = {"id": job, "number": number, "idempotency_key": job, "holder": None}
    return dict(template._mapping) | own | (waiting if is_queued else ended)
