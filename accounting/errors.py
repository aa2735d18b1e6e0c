"""Errors of the privacy arithmetic. Every message depends on public facts only."""


class AccountingError(Exception):
    """Base class of all errors that this package raises on purpose."""


class OutOfRange(AccountingError, ValueError):
    """A number that is not finite, or outside the range in which the theorems and the numerics hold."""


class Unsupported(AccountingError):
    """A plan that an accountant or mechanism does not cover; the message names the missing assumption."""


class CalibrationFailed(AccountingError):
    """A privacy target that no noise in the searched range meets."""


class OutOfPlan(AccountingError):
    """A query that the release plan does not contain, or not that often."""


class LedgerFrozen(AccountingError):
    """A charge on a ledger on which a steward has stopped all spending; nothing was charged."""


class BudgetExhausted(AccountingError):
    """A charge that the dataset's filter or an allotment does not admit; nothing was charged."""


class FilterMismatch(AccountingError):
    """A plan without a curve in the currency of the dataset's filter."""


class CodecError(AccountingError, ValueError):
    """A document that is malformed or not of the expected type."""


class ReceiptInvalid(AccountingError, ValueError):
    """A receipt that is malformed, or whose signature does not hold."""


class LedgerInvalid(AccountingError, ValueError):
    """A ledger event that does not fit the state before it, or an entry that does not fit the chain."""
