"""Why a file is refused: a function of the declaration, the limits and the form of the file, never of a value."""


class SourceError(Exception):
    """Root; `detail` may be shown to whoever sent the file."""

    def __init__(self, detail: str) -> None:
        self.detail = detail
        super().__init__(detail)


class Unreadable(SourceError):
    """The file is empty, damaged, ragged, or neither CSV nor Parquet. It is refused whole."""


class TooLarge(SourceError):
    """What the file unfolds to is larger than the service takes."""


class Mismatch(SourceError):
    """A declared column is not in the file, is there twice, or has a type that is not read.

    Parameters
    ----------
    index : position of the column in the declaration
    what : what is wrong with it, beginning with a verb
    """

    def __init__(self, index: int, name: str, what: str) -> None:
        self.index = index
        self.what = what
        super().__init__(f"The column {name!r} {what}.")


class Damaged(SourceError):
    """What is stored is not what was stored, or is not there."""


class Away(SourceError):
    """Where records are stored cannot be reached."""
