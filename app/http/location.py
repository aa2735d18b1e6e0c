"""`Location`: where the thing is that a request has made."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request, Response


async def locating(request: Request, response: Response) -> Callable[[str], None]:
    """Says to the caller where it is: a path of ours, behind the prefix that a proxy has put before it."""

    def locate(path: str) -> None:
        response.headers["Location"] = request.scope.get("root_path", "") + path

    return locate


Locate = Annotated[Callable[[str], None], Depends(locating)]
