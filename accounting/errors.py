"""One tree of errors for the privacy arithmetic; every message is a function of public facts only."""


class AccountingError(Exception):
    """Root of every error this package raises on purpose."""


class OutOfRange(AccountingError, ValueError):
    """A number is not finite or lies outside the range in which the theorems and the numerics hold."""


class Unsupported(AccountingError):
    """The accountant or mechanism does not cover what was asked; the message names the missing assumption."""


class CalibrationFailed(AccountingError):
    """No noise within the searched range keeps the plan inside the privacy target."""


class OutOfPlan(AccountingError):
    """A query was asked that the release plan does not hold, or more often than it holds it."""


class LedgerFrozen(AccountingError):
    """The steward has stopped all spending on this ledger; nothing was charged."""


class BudgetExhausted(AccountingError):
    """The dataset's filter does not admit this charge; nothing was charged."""


class FilterMismatch(AccountingError):
    """The plan has no curve in the currency of the dataset's filter."""


class CodecError(AccountingError, ValueError):
    """A document is not an event tree or plan of the allow-list."""


class ReceiptInvalid(AccountingError, ValueError):
    """A receipt is malformed, or its signature does not hold."""


class LedgerInvalid(AccountingError, ValueError):
    """A ledger event does not fit the state before it, or an entry does not fit the chain."""
