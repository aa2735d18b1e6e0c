"""One document of what a job is: its matrix, its problem, its method and its noise, as they were charged."""

import json
import math
from typing import Any

import sqlalchemy as sa
from alembic import op

from accounting.records.documents import canonical

revision = "0005"
down_revision = "0004"

_OPEN = (
    "select jobs.id, jobs.request, jobs.spec as plan, datasets.spec as declared, datasets.rows from jobs "
    "join datasets on datasets.id = jobs.dataset_id where jobs.state in ('queued', 'running')"
)


def upgrade() -> None:
    """What is open gets the new form, which the next server runs; what has ended stays as it was written.

    A document that is none of ours stays too: its job fails when its turn comes, as it would have before.
    """
    op.execute("alter table jobs rename column plan to spec")
    connection = op.get_bind()
    for row in connection.execute(sa.text(_OPEN)).all():
        try:
            spec = canonical(_spec(json.loads(row.request), json.loads(row.plan), json.loads(row.declared), row.rows))
        except (KeyError, TypeError, ValueError):
            continue
        connection.execute(
            sa.text("update jobs set spec = :spec where id = :id"), {"spec": spec.decode(), "id": row.id}
        )


def _spec(request: Any, plan: Any, declared: Any, rows: int) -> dict[str, Any]:
    """The form of this revision, made from those before it alone: what the code makes of a request may change."""
    columns, loss = declared["columns"], plan["loss"]
    names = [column["name"] for column in columns]
    target = names.index(request["target"])
    others = [name for name in names if name != request["target"]]
    asked = others if request["features"] is None else request["features"]
    positions = [names.index(name) for name in asked]
    features = [columns[position] for position in positions]
    widths = [len(feature["categories"]) + 1 if feature["type"] == "category" else 1 for feature in features]
    implied = math.sqrt(len(features) + 1)
    row_norm = implied if request["row_norm"] is None else min(request["row_norm"], implied)
    design = {"features": features, "positions": positions, "target": columns[target], "target_position": target}
    design |= {"stored": len(columns), "positive": _positive(request, columns[target], loss), "row_norm": row_norm}
    problem = {"loss": loss, "regularizer": request["regularizer"], "domain": request["domain"]}
    problem |= {"n": rows, "d": sum(widths) + 1, "row_norm": row_norm, "columns": {"widths": widths}}
    return {"design": design, "problem": problem, "method": plan["method"], "release_plan": plan["release_plan"]}


def _positive(request: Any, target: Any, loss: Any) -> int | None:
    """The code of the class that is +1; softmax tells all apart, and of two the second is +1 unless one was named."""
    if target["type"] != "category" or loss["name"] == "softmax":
        return None
    return 1 if request["positive"] is None else int(target["categories"].index(request["positive"]))
