"""Receipts on the client: checked offline, against keys that do not come from the receipt itself."""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from accounting.records.chain import Entry, Head
from accounting.records.documents import canonical
from purse.errors import ClientError
from purse.extras import needing
from purse.wire.evaluations import ReleasedEvaluation
from purse.wire.models import Model
from purse.wire.profiles import DatasetProfile
from purse.wire.receipts import KeySet, LedgerEntry, ReceiptDocument
from purse.wire.statistics import ReleasedStatistic

if TYPE_CHECKING:
    from accounting.records.receipt import Verification

Released = Model | DatasetProfile | ReleasedStatistic | ReleasedEvaluation
"""A document that a receipt can be for."""
AsWritten = Mapping[str, Any]
"""The JSON value of such a document with all its members, as a file holds it."""


class NotVerified(ClientError):
    """The receipt is malformed, no trusted key signed it, or its events cost more than it states."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The signed statement of what one release or session cost.

    Parameters
    ----------
    document : the signed receipt
    keys : the keys to trust: those that the server returned with the receipt, or a saved set
    """

    document: ReceiptDocument
    keys: KeySet

    def __repr__(self) -> str:
        statement = self.facts.get  # nothing is checked yet
        named = statement("job") or statement("session")
        return f"<receipt of {named}: states epsilon {statement('epsilon')} at delta {statement('delta')}>"

    @property
    def facts(self) -> Mapping[str, Any]:
        """The fields of the receipt: epsilon, delta, event, queries (of a session: plan), sequence, hash, ..."""
        return self.document.receipt

    @property
    def head(self) -> Head:
        """The head of the dataset's ledger at this release. A later ledger that lacks it was cut or rewritten."""
        return Head(self.facts["sequence"], self.facts["hash"])

    def verify(
        self,
        keys: KeySet | None = None,
        model: Released | AsWritten | None = None,
        ledger: Sequence[Entry | LedgerEntry] | None = None,
        heads: Collection[Head] = (),
    ) -> "Verification":
        """Check the signature and recompute epsilon, without a server.

        Recomputing needs the extra `solvers`; `verify_signature` does not.

        Parameters
        ----------
        keys : the keys to trust in place of those that came with the receipt
        model : also check that the receipt is for this model, profile, statistic or evaluation. For a file, pass its
            JSON value, because a `Model` drops members that it does not know
        ledger : also check this ledger, exported or from `Client.ledger`, and that it contains the release and its
            charge
        heads : also check that the ledger contains these

        Raises
        ------
        NotVerified
            if any check fails.
        NotInstalled
            without the extra `solvers`.
        """
        trusted = (keys or self.keys).model_dump()
        try:
            with needing("recomputing epsilon (verify_signature does not)"):
                verification = _verification(self.document.model_dump(), trusted, ledger, heads)
        except ValueError as error:
            raise NotVerified(str(error)) from error
        if not verification.holds:
            raise NotVerified(verification.reason or "the receipt failed a check")
        self._check_model(model)
        return verification

    def verify_signature(self, keys: KeySet | None = None, model: Released | AsWritten | None = None) -> None:
        """Check that a trusted key signed this receipt, and that it is for this model; recompute nothing.

        Raises
        ------
        NotVerified
            if a check fails.
        """
        from accounting.records.signing import check_json  # late: the signature library
        from accounting.records.statement import check

        try:
            wrong = check_json(check(self.facts), self.document.signature, (keys or self.keys).model_dump())
        except ValueError as error:
            raise NotVerified(str(error)) from error
        if wrong is not None:
            raise NotVerified(wrong)
        self._check_model(model)

    def _check_model(self, model: Released | AsWritten | None) -> None:
        if model is not None and "model_sha256" not in self.facts:
            raise NotVerified("the receipt is that of a session, which has no model. Leave out the model")
        if model is not None and _digest(model) != self.facts["model_sha256"]:
            raise NotVerified("the receipt is for another model. Pass the model of the same job, as it was downloaded")

    def save(self, folder: str | Path) -> tuple[Path, Path]:
        """Write receipt.json and keys.json into the folder, which is created if needed, and return both paths."""
        directory = Path(folder)
        directory.mkdir(parents=True, exist_ok=True)
        return write(directory / "receipt.json", self.document), write(directory / "keys.json", self.keys)


def load(receipt: str | Path, keys: str | Path) -> Receipt:
    """Return a saved receipt, with the saved keys that its checks trust.

    Raises
    ------
    NotVerified
        if a file does not hold a receipt or keys.
    OSError
        if a file cannot be read.
    """
    document = read_document(Path(receipt))
    try:
        return Receipt(document, KeySet.model_validate_json(Path(keys).read_bytes(), extra="ignore"))
    except ValidationError as error:
        raise NotVerified("the keys file is not a key set. Pass the file of `purse keys export`") from error


def read_document(file: Path) -> ReceiptDocument:
    """Return the signed receipt in a file, unchecked. Raise `NotVerified` if the file does not hold one."""
    from accounting.records.statement import read  # late: the checks of a receipt

    try:
        return ReceiptDocument.model_validate(read(file.read_bytes()))
    except ValueError as error:
        raise NotVerified(
            "this file is not a receipt with its signature. Pass receipt.json of `purse receipt get`"
        ) from error


def write(path: Path, document: ReceiptDocument | KeySet) -> Path:
    """Write the document as indented JSON and return the path."""
    path.write_text(json.dumps(document.model_dump(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def _verification(
    document: Any, trusted: Any, ledger: Sequence[Entry | LedgerEntry] | None, heads: Collection[Head]
) -> "Verification":
    from accounting.records import offline, receipt  # late: the extra `solvers`

    if ledger is None:
        if heads:
            raise NotVerified("heads can only be checked against a ledger. Pass ledger too")
        return receipt.verify(document, trusted)
    entries = [entry if isinstance(entry, Entry) else Entry.from_json(entry.model_dump()) for entry in ledger]
    return offline.verify_receipt(document, trusted, entries, heads)


def _digest(model: Released | AsWritten) -> str:
    document = model.model_dump(mode="json") if isinstance(model, BaseModel) else dict(model)
    try:
        return hashlib.sha256(canonical(document)).hexdigest()
    except ValueError as error:
        raise NotVerified(str(error)) from error
