"""A receipt in the client's hands: checked offline against keys from another source than the receipt itself."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from purse.errors import ClientError
from purse.extras import needing
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.models import Model
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import KeySet, LedgerEntry, ReceiptDocument
from purse.wire.statistics import ReleasedStatistic

if TYPE_CHECKING:
    from accounting.records.chain import Entry, Head
    from accounting.records.receipt import Verification

Released = Model | DatasetProfile | ReleasedStatistic | ReleasedEvaluation
"""What a receipt may be for."""
AsWritten = Mapping[str, Any]
"""The same as a file holds it, every member of it."""


class NotVerified(ClientError):
    """The receipt is malformed, no trusted key signed it, or its events cost more than it states."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one release cost.

    Parameters
    ----------
    document : the signed receipt
    keys : the keys to trust: the server's as fetched with the receipt, or a saved set
    """

    document: ReceiptDocument
    keys: KeySet

    def __repr__(self) -> str:
        said = self.facts.get  # whoever wrote it: nothing is checked yet
        return f"<receipt of {said('job')}: states epsilon {said('epsilon')} at delta {said('delta')}>"

    @property
    def facts(self) -> Mapping[str, Any]:
        """The receipt itself: epsilon, delta, event, queries, sequence, hash, ..."""
        return self.document.receipt

    @property
    def head(self) -> "Head":
        """The head of the dataset's ledger as of this release; a ledger that lacks it later was cut or rewritten."""
        from accounting.records.chain import Head

        return Head(self.facts["sequence"], self.facts["hash"])

    def verify(
        self,
        keys: KeySet | None = None,
        model: Released | AsWritten | None = None,
        ledger: "Sequence[Entry | LedgerEntry] | None" = None,
        heads: "Collection[Head]" = (),
    ) -> "Verification":
        """Signature and recomputed epsilon, with no server in reach.

        Recomputing needs the arithmetic, `privy-purse[solvers]`; `verify_signature` does without.

        Parameters
        ----------
        keys : the keys to trust instead of those that came with the download
        model : also check that the receipt is for this model, or profile; of a file give the JSON value that it holds,
            for what it holds beyond a model is not read into one
        ledger : also check that this ledger, exported or as `Client.ledger` answers, holds by itself, and holds the
            release and its charge
        heads : also check that the ledger contains these

        Raises
        ------
        NotVerified
            if anything does not hold.
        NotInstalled
            where the arithmetic is not.
        """
        trusted = (keys or self.keys).model_dump()
        try:
            with needing("recomputing epsilon (verify_signature does without)"):
                found = _found(self.document.model_dump(), trusted, ledger, heads)
        except ValueError as error:
            raise NotVerified(str(error)) from error
        if not found.holds:
            raise NotVerified(found.reason or "the receipt does not hold")
        self._is_of(model)
        return found

    def verify_signature(self, keys: KeySet | None = None, model: Released | AsWritten | None = None) -> None:
        """A trusted key signed exactly this receipt, and it is for this model; what it states is not recomputed.

        Raises
        ------
        NotVerified
            if not.
        """
        from accounting.records.signing import check_json  # late: what signatures need
        from accounting.records.statement import check

        try:
            wrong = check_json(check(self.facts), self.document.signature, (keys or self.keys).model_dump())
        except ValueError as error:
            raise NotVerified(str(error)) from error
        if wrong is not None:
            raise NotVerified(wrong)
        self._is_of(model)

    def _is_of(self, model: Released | AsWritten | None) -> None:
        if model is not None and _digest(model) != self.facts["model_sha256"]:
            raise NotVerified("the receipt is for another model")

    def save(self, folder: str | Path) -> tuple[Path, Path]:
        """Writes receipt.json and keys.json into the folder, made if it is not there; returns both paths."""
        directory = Path(folder)
        directory.mkdir(parents=True, exist_ok=True)
        return write(directory / "receipt.json", self.document), write(directory / "keys.json", self.keys)


def load(receipt: str | Path, keys: str | Path) -> Receipt:
    """A saved receipt, and the saved keys to trust.

    Raises
    ------
    NotVerified
        if a file does not hold what its name says; `OSError` if it cannot be read.
    """
    document = read_document(Path(receipt))
    try:
        return Receipt(document, KeySet.model_validate_json(Path(keys).read_bytes(), extra="ignore"))
    except ValidationError as error:
        raise NotVerified("the keys file is not a key set") from error


def read_document(file: Path) -> ReceiptDocument:
    """The signed receipt in a file, nothing of it checked; `NotVerified` if it is none."""
    from accounting.records.receipt import read  # late: what signatures need

    try:
        return ReceiptDocument.model_validate(read(file.read_bytes()))
    except ValueError as error:
        raise NotVerified("this file is not a receipt with its signature") from error


def write(path: Path, document: ReceiptDocument | KeySet) -> Path:
    """The document as indented JSON."""
    path.write_text(json.dumps(document.model_dump(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _found(
    document: Any, trusted: Any, ledger: "Sequence[Entry | LedgerEntry] | None", heads: "Collection[Head]"
) -> "Verification":
    from accounting.records.chain import Entry
    from accounting.records.receipt import verify

    if ledger is None:
        if heads:
            raise NotVerified("heads are looked up in a ledger, and there is none")
        return verify(document, trusted)
    from accounting.records.offline import verify_receipt  # late: it replays, and so loads what filters need

    entries = [entry if isinstance(entry, Entry) else Entry.from_json(entry.model_dump()) for entry in ledger]
    return verify_receipt(document, trusted, entries, heads)


def _digest(model: Released | AsWritten) -> str:
    from accounting.records.documents import canonical  # late: what signatures need

    document = model.model_dump(mode="json") if isinstance(model, BaseModel) else dict(model)
    try:
        return hashlib.sha256(canonical(document)).hexdigest()
    except ValueError as error:
        raise NotVerified(str(error)) from error
