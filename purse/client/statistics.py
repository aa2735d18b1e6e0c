"""Statistics from asyncio whose requests have a short form."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, final

from purse.client.jobs import AsyncJobHandle, AsyncJobs
from purse.client.requests import without_none
from purse.client.sending import CallGroup
from purse.wire.datasets import Dataset

_CONDITION = re.compile(r"\s*(?P<column>.*?[^=!<>\s])\s*(?P<op>==|!=|<=|>=|<|>|\bin\b)\s*(?P<value>[^=\s].*?)\s*")


@final
class AsyncStatistics(CallGroup):
    """Statistics of a server's datasets."""

    async def table1(
        self,
        *,
        dataset: Dataset | str,
        by: str | Sequence[str],
        privacy: object,
        columns: Sequence[str] | None = None,
        where: Sequence[str | Mapping[str, Any]] | None = None,
        idempotency_key: str | None = None,
    ) -> AsyncJobHandle:
        """Charge the budget and queue a job that describes groups of rows. Its `statistic()` waits for the result.

        Parameters
        ----------
        by : one or two category columns, whose categories are the groups
        columns : the columns to describe in each group; all others if None
        where : conditions that every described row satisfies, such as "age >= 65", or mappings with column, op, value
        dataset, privacy, idempotency_key : as for a job

        Raises
        ------
        ValueError
            if a condition cannot be read.
        ProblemError
            as for a job.
        """
        conditions = None if where is None else [condition(each) if isinstance(each, str) else each for each in where]
        return await AsyncJobs(self._sender).submit(
            dataset=dataset,
            method="table1",
            privacy=privacy,
            idempotency_key=idempotency_key,
            **without_none(by=[by] if isinstance(by, str) else list(by), columns=columns, where=conditions),
        )


def condition(text: str) -> dict[str, Any]:
    """Return the condition of a text such as `age >= 65`, `ward in a, b` or `code == "1"`.

    A value in double quotes is text also if it is a number.

    Raises
    ------
    ValueError
        if the text has no operator, or nothing on one side of it.
    """
    parts = _CONDITION.fullmatch(text)
    if parts is None:
        raise ValueError(f"{text!r} is not a condition. Write a column, ==, !=, <, <=, >, >= or in, and a value")
    value = parts["value"]
    values = [_value(part.strip()) for part in value.split(",")] if parts["op"] == "in" else _value(value)
    return {"column": parts["column"], "op": parts["op"], "value": values}


def _value(text: str) -> float | str:
    """Return a finite number as a number, and any other text as it is, without double quotes."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if isinstance(value, str) or (is_number and abs(value) <= sys.float_info.max) else text
