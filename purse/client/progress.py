"""A progress bar for a job on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from purse.wire.jobs import JobEvent

Watch = Callable[[JobEvent], None]


@contextmanager
def watching(label: str, progress: bool | Watch | None) -> Iterator[Watch]:
    """Yield the function to call with each event: the caller's own, or one that draws a bar on stderr or nothing.

    Parameters
    ----------
    label : text before the bar
    progress : a function; True for a bar, False for none; None for a bar if stderr is a terminal
    """
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not sys.stderr.isatty()):
        yield lambda _event: None
        return
    from rich.console import Console  # late: the larger part of an import of the client
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[state]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=None, state="waiting")

        def show(event: JobEvent) -> None:
            total = event.progress.total if event.progress.done else None  # a running job reports no progress
            bar.update(task, completed=event.progress.done, total=total, state=event.state)

        yield show
