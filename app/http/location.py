"""The `Location` header: the path of the resource that a request has created."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Request, Response


async def locating(request: Request, response: Response) -> Callable[[str], None]:
    """Return a function that sets `Location` to a path of the service, after the proxy's prefix."""

    def locate(path: str) -> None:
        response.headers["Location"] = request.scope.get("root_path", "") + path

    return locate


Locate = Annotated[Callable[[str], None], Depends(locating)]
