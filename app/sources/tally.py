"""What became of a file's values, counted for whoever sent it. Nothing of it is stored, logged or told to others."""

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.sources.batch import Batch
from app.sources.cures import cure
from app.sources.encoding import Fate, Fates, texts
from app.sources.errors import Unparsed
from purse.wire.columns import Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from purse.wire.files import ColumnReport, FileReport, Outcome, OutcomeKind

LOST = (Fate.CLAMPED, Fate.MISSING, Fate.UNPARSED)
MOST_EXAMPLES, MOST_LETTERS = 4, 40
_LOOKED_AT = 1000  # values of one kind in a block, for examples


@dataclass(slots=True)
class _Kind:
    """Values of one fate in one column."""

    count: int = 0
    line: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, where: NDArray[np.intp], position: int, batch: Batch) -> None:
        """Some more, by their places in a batch."""
        if not self.count:
            self.line = batch.line(int(where[0]))
        self.count += len(where)
        if len(self.examples) < MOST_EXAMPLES:
            values = batch.columns[position].take(pa.array(where[:_LOOKED_AT]))
            for text in _shown(values):
                if len(self.examples) < MOST_EXAMPLES:
                    self.examples[text] = None


class Tally:
    """Counts, column by column.

    Parameters
    ----------
    spec : the declaration; says how much may not parse
    """

    def __init__(self, spec: DatasetSpec) -> None:
        self._spec = spec
        self._records = 0
        self._kinds: list[dict[Fate, _Kind]] = [{fate: _Kind() for fate in LOST} for _ in spec.columns]

    def count(self, batch: Batch, fates: Sequence[Fates]) -> None:
        """What became of a batch's values: an array for each column."""
        self._records += len(fates[0])
        for position, (found, kinds) in enumerate(zip(fates, self._kinds, strict=True)):
            if not found.any():
                continue
            for fate, kind in kinds.items():
                where = np.flatnonzero(found == fate)
                if len(where):
                    kind.add(where, position, batch)

    @property
    def report(self) -> FileReport:
        """All that was counted."""
        columns = [self._column(*pair) for pair in zip(self._spec.columns, self._kinds, strict=True)]
        return FileReport(records=self._records, columns=columns)

    def check(self) -> None:
        """`Unparsed` if more of a column than may be did not parse."""
        report = self.report
        if report.refused:
            raise Unparsed(report)

    def _column(self, column: Column, kinds: Mapping[Fate, _Kind]) -> ColumnReport:
        told = partial(cure, column, self._spec.dialect)
        outcomes = [
            Outcome(what=what, count=k.count, line=k.line, examples=[*k.examples], cure=told(what, [*k.examples]))
            for what, k in ((_what(column, fate), kind) for fate, kind in kinds.items())
            if k.count
        ]
        parsed = self._records - sum(outcome.count for outcome in outcomes)
        limit = self._spec.most_unparsed(column.name)
        return ColumnReport(name=column.name, parsed=parsed, outcomes=outcomes, max_unparsed=limit)


def _what(column: Column, fate: Fate) -> OutcomeKind:
    if fate == Fate.CLAMPED:
        return "clamped"
    if fate == Fate.MISSING:
        return "missing"
    if column.date is not None:
        return "not_a_date"
    return "not_a_number" if isinstance(column, NumberColumn) else "not_declared"


def _shown(values: pa.Array) -> list[str]:
    """Distinct values that are there, as text, shortened."""
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    plain = values.cast(pa.string()) if pa.types.is_floating(values.type) else texts(values)  # nan and inf are shown
    found = pc.unique(plain).drop_null().cast(pa.binary()).to_pylist()  # Parquet promises text, and Arrow does not look
    words = (word.decode(errors="replace").strip(string.whitespace) for word in found)
    return [word[:MOST_LETTERS] for word in words if word]
