"""Queues of jobs that are written to the database as they stand."""

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

import sqlalchemy as sa

from accounting.records.documents import canonical_text
from app.persistence.tables import jobs, ledgers, turns
from tests.support.world import World


def replace_jobs(
    world: World,
    lines: Sequence[tuple[str, str]],
    running: Sequence[tuple[str, str]],
    turns_by_owner: Mapping[str, int] = MappingProxyType({}),
    frozen: Collection[str] = (),
) -> None:
    """Replace all jobs by `lines`, which are queued in this order, and `running`."""
    with world.database.write() as connection:
        like = dict(connection.execute(sa.select(jobs).order_by(jobs.c.number).limit(1)).one()._mapping)
        connection.execute(sa.delete(jobs).where(jobs.c.id != like["id"]))
        connection.execute(sa.update(jobs).values(number=0, state="cancelled"))
        connection.execute(sa.delete(turns))
        waits = {"state": "queued", "attempt": 0, "holder": None}
        runs = {"state": "running", "attempt": 1, "holder": "lives"}
        rows = [
            like
            | kind
            | {"id": f"job_{n}", "number": n, "idempotency_key": str(n), "owner_id": owner, "dataset_id": on}
            for n, (kind, (owner, on)) in enumerate(
                [(waits, job_of) for job_of in lines] + [(runs, job_of) for job_of in running],
                1,
            )
        ]
        if rows:
            connection.execute(sa.insert(jobs), rows)
        if turns_by_owner:
            connection.execute(
                sa.insert(turns), [{"owner_id": owner, "turn": turn} for owner, turn in turns_by_owner.items()]
            )
        for row in connection.execute(sa.select(ledgers)).all():
            state = json.loads(row.state) | {"frozen": row.id in frozen}
            connection.execute(sa.update(ledgers).where(ledgers.c.id == row.id).values(state=canonical_text(state)))
