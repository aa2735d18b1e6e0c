"""The stable codes of error responses, with their statuses, titles and meanings."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    """HTTP status, title and meaning of an error code; the meaning tells the caller what to do."""

    status: int
    title: str
    meaning: str


CODES: Mapping[str, Code] = {
    "malformed_request": Code(400, "The bytes are not an HTTP request", "The request breaks the rules of HTTP/1.1."),
    "invalid_request": Code(
        422,
        "The request is not valid",
        "The JSON, a field or a type differs from the schema. `violations` names the fields.",
    ),
    "out_of_range": Code(
        422,
        "A number is out of range",
        "A number is not finite, or outside the range that the theory and the numerics support. `violations` "
        "states the field and the range.",
    ),
    "unsupported_combination": Code(
        422,
        "The combination is not supported",
        "The detail names the assumption of the theory that the combination violates.",
    ),
    "method_filter_mismatch": Code(
        422,
        "The dataset's filter cannot charge the method",
        "Choose another method. The detail states the reason.",
    ),
    "method_needs_one_machine": Code(
        422,
        "The method needs all rows on one machine",
        "The dataset is stored as partitions. The detail states which step needs all rows.",
    ),
    "unreadable_file": Code(
        422,
        "The file cannot be read",
        "The file is empty, damaged, or in another format than declared. `purse check` shows the position "
        "before an upload.",
    ),
    "unparsed_values": Code(
        422,
        "Too many values cannot be parsed as declared",
        "In one column, more values than `max_unparsed` allows cannot be parsed, or more than `max_clamped` allows "
        "lie outside the bounds. `report` states the causes and likely remedies.",
    ),
    "unauthenticated": Code(
        401,
        "A valid bearer token is required",
        "The token is missing, unknown, revoked or expired. Ask a steward for another one.",
    ),
    "forbidden": Code(
        403,
        "The token does not allow this action",
        "The token is valid, but its role or scopes do not allow this action. Ask a steward for another token.",
    ),
    "not_found": Code(
        404,
        "The resource does not exist",
        "The resource does not exist, or the token gives no access to it. Check the id, or ask a steward for a grant.",
    ),
    "method_not_allowed": Code(
        405, "The path does not support this method", "The Allow header lists the supported methods."
    ),
    "request_timeout": Code(
        408,
        "The request arrived too slowly",
        "The server waited too long for the headers or the body. Send the request again, and large files in parts.",
    ),
    "budget_exhausted": Code(
        409, "The remaining budget does not allow this", "Nothing was charged. `remaining` states what would still fit."
    ),
    "overallotted": Code(
        409,
        "The reservations exceed the budget",
        "A reservation must cover what its analyst has already spent, and all reservations plus everyone "
        "else's spending must fit in the budget.",
    ),
    "idempotency_conflict": Code(
        409,
        "The Idempotency-Key belongs to another request",
        "The key was used with a different request. Use a new key for each new request.",
    ),
    "name_taken": Code(409, "The name is already in use", "Choose another name."),
    "duplicate_dataset": Code(
        409,
        "The values are already registered",
        "A second ledger would start a new budget for the same records. Use the existing dataset or its family.",
    ),
    "family_mismatch": Code(
        409,
        "The declaration differs from the family's",
        "All datasets of a family have the same budget, neighbors and unit. The detail states the difference.",
    ),
    "already_charged": Code(
        409,
        "The ledger already has a charge",
        "After the first charge, a name cannot change and a budget can only grow.",
    ),
    "dataset_frozen": Code(
        409,
        "The dataset is frozen",
        "Nothing was charged. A steward, a charge above the budget, or a restored database has blocked all spending, "
        "until a steward unfreezes the dataset.",
    ),
    "dataset_changed": Code(
        409, "The budget changed during pricing", "Nothing was charged. Send the request again; its price may differ."
    ),
    "dataset_deleted": Code(
        409, "The dataset's values are deleted", "The dataset accepts no more jobs. Its receipts and its ledger remain."
    ),
    "sessions_refused": Code(
        409,
        "The dataset allows no sessions",
        "Nothing was charged. The steward has not allowed sessions on this dataset, or it has a holdout set.",
    ),
    "session_exhausted": Code(
        409,
        "The session's plan has fewer answers left",
        "Nothing was recorded. Open another session for more than the answers of this session's `plan`.",
    ),
    "session_ended": Code(
        409, "The session has ended", "Nothing was recorded. Open another session before the next answer."
    ),
    "session_open": Code(
        409, "The session is still open", "Its receipt is issued when it has ended. Close it, or wait until it expires."
    ),
    "data_elsewhere": Code(
        409,
        "The dataset's records are not on this server",
        "The dataset is only a declaration, so nothing can be computed from it or deleted here. Open a session, or "
        "charge what ran elsewhere.",
    ),
    "not_released": Code(
        409,
        "The job has not released anything",
        "Wait if the job is queued or running. Failed and cancelled jobs release nothing.",
    ),
    "offset_mismatch": Code(
        409,
        "The upload continues at another byte",
        "Nothing was written. `Upload-Offset` in the answer to HEAD states the right byte.",
    ),
    "upload_incomplete": Code(409, "The upload is not complete", "Send the missing bytes first."),
    "already_finished": Code(409, "The job has already ended", "A job that has ended cannot be cancelled."),
    "last_steward": Code(
        409,
        "This is the last steward token",
        "Make another steward token first. Without a steward token, no new tokens could be made.",
    ),
    "unsupported_version": Code(
        412, "The protocol version is not supported", "`Tus-Version` states the supported version."
    ),
    "too_large": Code(413, "The request is too large", "Send a smaller request. The detail states the limit."),
    "unsupported_media_type": Code(
        415, "The content type is not accepted", "Use the content type that the detail states."
    ),
    "upload_busy": Code(
        423,
        "The upload is in use",
        "Another request is writing, registering or deleting this upload. Try again when it has finished.",
    ),
    "too_many_requests": Code(
        429,
        "Too many requests, or too many waiting jobs",
        "A limit on requests, jobs, uploads or calculations is reached. `Retry-After` states when to try again.",
    ),
    "headers_too_large": Code(
        431,
        "The request's headers are too large",
        "The first line and the headers may have at most 16 KiB, and at most 100 headers.",
    ),
    "overloaded": Code(503, "The service is overloaded", "`Retry-After` states when to try again."),
    "not_ready": Code(
        503, "The service is not ready", "The server is starting or stopping. Try again in a few seconds."
    ),
    "sign_on_unavailable": Code(
        503,
        "The sign-on provider does not answer",
        "Tokens of the provider cannot be checked at the moment. Tokens of this service still work.",
    ),
    "database_unavailable": Code(
        503,
        "The database does not answer",
        "Committed changes are safe. Send the request again with the same Idempotency-Key.",
    ),
    "storage_unavailable": Code(
        503,
        "The storage of partitions cannot be reached",
        "Nothing was registered. Requested deletions are noted, and completed at the next start that reaches "
        "the storage.",
    ),
    "dataset_damaged": Code(
        503,
        "The stored dataset differs from the registered one",
        "Nothing was charged. The operator must restore the dataset.",
    ),
    "disk_full": Code(507, "The disk is full", "Nothing was changed or charged. The operator must free disk space."),
    "internal": Code(
        500, "An internal error occurred", "The server's log contains more information. Earlier charges remain."
    ),
}
