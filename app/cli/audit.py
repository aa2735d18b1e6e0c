"""purse audit."""

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from accounting.privacy import Relation
from app.cli import late
from app.cli.output import Output, Refusal, note
from purse import text

if TYPE_CHECKING:
    from solvers.audit import Finding


def audit(
    method: str, runs: Annotated[int, typer.Option(min=100, max=1_000_000)] = 4000, neighbors: Relation = "replace_one"
) -> Output:
    """Attack a method to check its guarantee.

    The attack compares runs on two worst-case neighboring datasets, on this machine. Each lower bound on epsilon is
    correct except with probability one in a billion. A bound above the guaranteed epsilon would prove that the method
    is broken. The same attack on the method with half the noise tests the attack. If even that bound does not exceed
    the guarantee, the attack proves nothing at that delta. An audit of all methods takes minutes, and reports each
    method as it finishes.

    Parameters
    ----------
    method : A method's name, or all.
    runs : Number of runs on each of the two neighboring datasets.
    neighbors : The neighbor relation.

    \b
    Examples:
      purse audit dp_svrg
      purse audit dp_gd --neighbors zero_out
      purse audit all --runs 20000 --json
    """
    cases = late.cases.CASES
    if method != "all" and method not in cases:
        raise Refusal(f"{method!r} cannot be audited. Choose one of {', '.join(sorted(cases))}, or all.")
    names = sorted(cases) if method == "all" else [method]
    findings: dict[str, list[Finding]] = {}
    for name in names:
        findings[name] = late.findings.audit(name, runs, relation=neighbors)
        if len(names) > 1:
            counts = sorted(Counter(map(_result, findings[name])).items())
            note(f"{len(findings)} of {len(names)}: {name}: {', '.join(f'{n} {result}' for result, n in counts)}")
    rows = [
        (name, each.delta, each.promise, each.lower_bound, each.half_noise, _result(each))
        for name in names
        for each in findings[name]
    ]
    headings = ("method", "delta", "epsilon", "lower bound", "with half the noise", "result")
    units = {name: str(cases[name].problem.unit) for name in names}
    notes = [
        f"neighbors differ in {unit}, {neighbors}: {', '.join(name for name in names if units[name] == unit)}"
        for unit in sorted(set(units.values()))
    ]
    document = {name: [asdict(each) for each in findings[name]] for name in names}
    is_broken = any(result == "BROKEN" for *_, result in rows)
    notes += ["An attack proved a larger epsilon than the guarantee allows."] if is_broken else []
    return Output(document, text.table(headings, rows), notes, exit_code=1 if is_broken else 0)


def _result(finding: "Finding") -> str:
    """Return the result of an attack at one delta."""
    if finding.lower_bound > finding.promise:
        return "BROKEN"
    return "holds" if finding.half_noise > finding.promise else "undecided"
