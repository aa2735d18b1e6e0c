"""purse audit."""

from dataclasses import asdict
from typing import Annotated

import typer

from accounting.privacy import Relation
from app.cli.common import Json, Refusal, emit, note, table
from purse.wire.neighbors import MEANING


def audit(
    method: Annotated[str, typer.Argument(help="A method's name, or all.")],
    runs: Annotated[
        int, typer.Option(min=100, max=1_000_000, help="Runs on either of the two neighboring datasets.")
    ] = 4000,
    neighbors: Annotated[str, typer.Option(help="replace_one or zero_out.")] = "replace_one",
    json: Json = False,
) -> None:
    """Attack a method on its worst-case neighbors: promise, what the attack proves, and its power. Needs no server.

    The lower bound holds but for a chance of one in a billion; above the promise it would prove the method broken.
    Power is the same attack on the method with half its noise: where the lower bound exceeds the promise the
    attack would have seen a fault as large; where it does not, nothing is decided at that delta.

    \b
    Examples:
      purse audit dp_svrg
      purse audit dp_gd --neighbors zero_out
      purse audit all --runs 20000 --json
    """
    from solvers.audit import CASES
    from solvers.audit import audit as attack

    if method != "all" and method not in CASES:
        raise Refusal(f"no method of that name has an audit; there are {', '.join(sorted(CASES))}")
    if neighbors not in MEANING:
        raise Refusal("--neighbors must be replace_one or zero_out")
    relation: Relation = neighbors
    names = sorted(CASES) if method == "all" else [method]
    found = {name: attack(name, runs, relation=relation) for name in names}
    document = {name: [asdict(finding) for finding in findings] for name, findings in found.items()}

    def say() -> None:
        headings = ("method", "delta", "promised epsilon", "lower bound", "with half the noise", "")
        rows = []
        for name, findings in found.items():
            for f in findings:
                decided = "kept, half the noise caught" if f.half_noise > f.promise else "not decided"
                verdict = "BROKEN" if f.lower_bound > f.promise else decided
                rows.append((name, f.delta, f.promise, f.lower_bound, f.half_noise, verdict))
        table(headings, rows)
        units = {name: str(CASES[name].problem.unit) for name in names}
        for unit in sorted(set(units.values())):
            note(f"neighbors differ in {unit}, {neighbors}: {', '.join(name for name in names if units[name] == unit)}")

    emit(document, json, say)
    if any(f.lower_bound > f.promise for findings in found.values() for f in findings):
        raise Refusal("an attack proved more than the promise allows")
