"""The `Idempotency-Key` header: a request that is repeated with its key has no second effect."""

from typing import Annotated

from fastapi import Header

Key = Annotated[
    str | None,
    Header(
        pattern=r"^[\x21-\x7e]{1,200}$",
        description="Made by the caller before it sends. The same key and body again gets the answer of the first "
        "request, without a second effect.",
    ),
]
