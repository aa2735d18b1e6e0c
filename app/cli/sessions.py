"""purse sessions open, list, show, record, close, receipt."""

from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.options import Dataset, Key, OldestFirst, OptionalFile
from app.cli.output import Output, Refusal, read_json
from app.cli.outside import Count, Mechanism
from app.cli.receipts import saved
from purse import Client, text
from purse.client.requests import without_none
from purse.wire.sessions import Session, SessionCharge

SessionId = Annotated[str, typer.Argument(help="The session's id.")]


def open_session(
    client: Client,
    dataset: Dataset,
    mechanism: Mechanism,
    epsilon: float | None = None,
    delta: float | None = None,
    count: Count = 1,
    events: OptionalFile = None,
    title: str | None = None,
    lifetime: int | None = None,
    idempotency_key: Key = None,
) -> Output:
    """Reserve budget for answers that your program computes.

    State the noise of the answers, or an epsilon for which the server computes the noise. Record each answer before
    your program computes it, and close the session at the end. An expired session stays charged as a whole.

    Parameters
    ----------
    epsilon : Epsilon of all answers together. The server then computes the noise.
    delta : Delta that goes with --epsilon. Default: the dataset's.
    events : JSON file with a list of events, instead of the options for one kind.
    title : Your name for the session.
    lifetime : Seconds until the session expires, from 60 to 2678400 (31 days). Default: 86400 (a day).

    \b
    Examples:
      purse sessions open census --epsilon 1 --count 500 --rate 0.02
      purse sessions open census --gaussian 4 --count 100 --title "small network"
      purse sessions open census --events plan.json --lifetime 7200
    """
    stated = (epsilon, mechanism.gaussian, mechanism.laplace, mechanism.pure, events)
    if sum(each is not None for each in stated) != 1:
        raise Refusal("Give exactly one of --epsilon, --gaussian, --laplace, --pure and --events.")
    if delta is not None and epsilon is None:
        raise Refusal("--delta goes with --epsilon. Add --epsilon, or leave out --delta.")
    plan: dict[str, Any] = {"title": title, "lifetime": lifetime, "idempotency_key": idempotency_key}
    if epsilon is not None:
        privacy = without_none(epsilon=epsilon, delta=delta)
        plan |= {"privacy": privacy, "steps": count, "sampling_probability": mechanism.rate}
    elif events is not None:
        plan["events"] = read_json(events)
    else:
        plan["events"] = [{"type": "SelfComposedDpEvent", "event": mechanism.event, "count": count}]
    return session_output(client.sessions.open(dataset=dataset, **plan).session)


def list_sessions(client: Client, dataset: str | None = None, oldest_first: OldestFirst = False) -> Output:
    """List the sessions that you may see.

    The newest session comes first.

    Parameters
    ----------
    dataset : List only sessions on this dataset, by id or name.

    \b
    Examples:
      purse sessions
      purse sessions list --dataset census
    """
    sessions = client.sessions.list(dataset=dataset, order="asc" if oldest_first else "desc")
    rows = [
        (each.id, each.title or "-", each.dataset_name, each.analyst, each.state, _recorded(each), each.charged.epsilon)
        for each in sessions
    ]
    columns = ("id", "title", "dataset", "analyst", "state", "recorded", "epsilon")
    return Output(sessions, text.table(columns, rows))


def show(client: Client, session: SessionId) -> Output:
    """Show a session with its plan and charge.

    \b
    Example:
      purse sessions show sess_abc
    """
    return session_output(client.sessions.get(session).session)


def record(client: Client, session: SessionId, steps: int = 1, event: int = 0) -> Output:
    """Record answers before your program computes them.

    If the command fails, do not compute the answers.

    Parameters
    ----------
    steps : Number of answers.
    event : Position of the event in the plan. The first is 0.

    \b
    Example:
      purse sessions record sess_abc --steps 10
    """
    return session_output(client.sessions.get(session).record(steps, event))


def close(client: Client, session: SessionId) -> Output:
    """End a session and refund its unused part.

    The dataset's rule for sessions may exclude refunds.

    \b
    Example:
      purse sessions close sess_abc
    """
    return session_output(client.sessions.get(session).close())


def receipt(client: Client, session: SessionId, out: Path = Path()) -> Output:
    """Save the receipt of an ended session and the server's keys.

    Parameters
    ----------
    out : The folder for receipt.json and keys.json.

    \b
    Example:
      purse sessions receipt sess_abc --out receipts/sess_abc
    """
    return saved(client.sessions.get(session).receipt(), out)


def session_output(session: Session) -> Output:
    """Return a session as the result of a command."""
    lines: list[tuple[str, object]] = [
        ("session", session.id),
        ("dataset", session.dataset_name),
        ("state", session.state),
        ("recorded", _recorded(session)),
        ("reserved", _charge(session.reserved)),
        ("charged", _charge(session.charged)),
        ("expires" if session.state == "open" else "ended", session.ended_at or session.expires_at),
    ]
    if session.noise_multiplier is not None:
        lines.insert(3, ("noise multiplier", session.noise_multiplier))
    rows = [(i, _event(part.event), part.recorded, part.count) for i, part in enumerate(session.plan)]
    return Output(session, text.facts(lines) + text.table(("event", "answer", "recorded", "planned"), rows))


def _recorded(session: Session) -> str:
    return f"{sum(part.recorded for part in session.plan):,} of {sum(part.count for part in session.plan):,}"


def _charge(charge: SessionCharge) -> str:
    share = "" if charge.share is None else f", {text.percent(charge.share)} of the budget"
    return text.loss(charge.epsilon, charge.delta) + share


def _event(event: dict[str, Any]) -> str:
    """Return an event as one line, such as `PoissonSampled 0.02, Gaussian 4`."""
    parameters = [value for name, value in event.items() if name not in ("type", "event")]
    name = str(event["type"]).removesuffix("DpEvent")
    own = " ".join([name, *map(text.number, parameters)])
    return f"{own}, {_event(event['event'])}" if "event" in event else own
