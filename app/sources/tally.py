"""The outcomes of a file's values, counted for its sender. They are not stored, logged or shown to others."""

import string
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.sources.batch import Batch
from app.sources.cures import cure, cure_of_missing
from app.sources.encoding import Fate, Fates, texts
from app.sources.errors import Unparsed
from app.sources.identifiers import unit_warnings
from purse.wire.columns import Column, NumberColumn
from purse.wire.datasets import DatasetSpec
from purse.wire.files import ColumnReport, FileReport, Outcome, OutcomeKind

LOST = (Fate.CLAMPED, Fate.MISSING, Fate.UNPARSED)
MOST_EXAMPLES, MOST_LETTERS = 4, 40
_EXAMPLE_BYTES = 2**10  # of a text: MOST_LETTERS letters and preceding white space
_MOST_EXAMINED = 1000  # values of one fate in a batch, for examples


@dataclass(slots=True)
class _Kind:
    """Values of one fate in one column."""

    count: int = 0
    line: int = 0
    examples: dict[str, None] = field(default_factory=dict)

    def add(self, where: NDArray[np.intp], position: int, batch: Batch) -> None:
        """Count more values of this fate.

        Parameters
        ----------
        where : their indices in the batch, at least one
        position : of the column in the batch
        """
        if not self.count:
            self.line = batch.line(int(where[0]))
        self.count += len(where)
        if len(self.examples) == MOST_EXAMPLES:
            return
        for text in _texts(batch.columns[position], pa.array(where[:_MOST_EXAMINED])):
            self.examples[text] = None
            if len(self.examples) == MOST_EXAMPLES:
                return


class Tally:
    """Counts outcomes, column by column.

    Parameters
    ----------
    spec : the declaration, with the limits
    """

    def __init__(self, spec: DatasetSpec) -> None:
        self._spec = spec
        self._records = 0
        self._header: Sequence[str] = ()
        self._kinds: list[dict[Fate, _Kind]] = [{fate: _Kind() for fate in LOST} for _ in spec.columns]

    def count(self, batch: Batch, fates: Sequence[Fates]) -> None:
        """Count the outcomes of a batch: an array for each column."""
        self._records += len(fates[0])
        for position, (column_fates, kinds) in enumerate(zip(fates, self._kinds, strict=True)):
            if not column_fates.any():
                continue
            for fate, kind in kinds.items():
                where = np.flatnonzero(column_fates == fate)
                if len(where):
                    kind.add(where, position, batch)

    @property
    def report(self) -> FileReport:
        """All counts, and warnings about the names in the header."""
        columns = [self._column(*pair) for pair in zip(self._spec.columns, self._kinds, strict=True)]
        return FileReport(records=self._records, columns=columns, warnings=unit_warnings(self._spec, self._header))

    def check(self, header: Sequence[str]) -> None:
        """Raise `Unparsed` if more values of a column did not parse, or were clamped, than the declaration allows.

        Parameters
        ----------
        header : the names of all columns of the file, declared or not
        """
        self._header = header
        report = self.report
        if report.refused:
            raise Unparsed(report)

    def _column(self, column: Column, kinds: Mapping[Fate, _Kind]) -> ColumnReport:
        outcomes = [
            Outcome(
                what=_outcome_kind(column, fate),
                count=kind.count,
                line=kind.line,
                examples=[*kind.examples],
                cure=self._cure(column, fate, kind),
            )
            for fate, kind in kinds.items()
            if kind.count
        ]
        parsed = self._records - sum(outcome.count for outcome in outcomes)
        return ColumnReport(
            name=column.name,
            parsed=parsed,
            outcomes=outcomes,
            max_unparsed=self._spec.most_unparsed(column.name),
            max_clamped=self._spec.most_clamped(column.name) if isinstance(column, NumberColumn) else None,
        )

    def _cure(self, column: Column, fate: Fate, kind: _Kind) -> str | None:
        if fate != Fate.MISSING:
            return cure(column, self._spec.dialect, _outcome_kind(column, fate), [*kind.examples])
        is_frequent = kind.count > self._spec.most_unparsed(column.name) * self._records
        return cure_of_missing(column) if is_frequent else None


def _outcome_kind(column: Column, fate: Fate) -> OutcomeKind:
    if fate == Fate.CLAMPED:
        return "clamped"
    if fate == Fate.MISSING:
        return "missing"
    if column.date is not None:
        return "not_a_date"
    return "not_a_number" if isinstance(column, NumberColumn) else "not_declared"


def _texts(values: pa.Array, where: pa.Array) -> Iterator[str]:
    """Yield the values at these indices as text, without nulls and blank texts, each cut to MOST_LETTERS letters.

    Distinct entries of a dictionary are read one by one, because they may be long and are not copied as a whole.
    """
    if pa.types.is_dictionary(values.type):
        indices = pc.unique(values.indices.take(where)).drop_null().to_pylist()
        some: Iterable[pa.Array] = (values.dictionary.slice(index, 1) for index in indices)
    else:
        some = [values.take(where)]
    for values_here in some:
        is_float = pa.types.is_floating(values_here.type)
        plain = values_here.cast(pa.string()) if is_float else texts(values_here)  # nan and inf are shown
        cut = pc.binary_slice(
            plain.cast(pa.binary()), 0, _EXAMPLE_BYTES
        )  # bytes: Arrow does not check that it is UTF-8
        for word in pc.unique(cut).drop_null().to_pylist():
            if text := word.decode(errors="replace").strip(string.whitespace):
                yield text[:MOST_LETTERS]
