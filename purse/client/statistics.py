"""Statistics from asyncio whose requests have a short form."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

from purse.client.jobs import AsyncJobHandle, AsyncJobs
from purse.client.requests import without_none
from purse.client.sending import Sender
from purse.table1 import condition
from purse.wire.datasets import Dataset


@final
@dataclass(frozen=True, slots=True)
class AsyncStatistics:
    """Statistics of a server's datasets."""

    _sender: Sender

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
