"""Scripts, styles and pictures of the pages, at paths that contain a digest of all of them.

A path therefore never changes its content, and browsers may store it for good. All files share one digest, so that
modules can import each other by relative paths.
"""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fastapi import Request, Response

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.pages.session import PREFIX

FOLDER = Path(__file__).parent / "static"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_FOR_GOOD = "public, max-age=31536000, immutable"

router = strict_router(prefix=f"{PREFIX}/static", include_in_schema=False)


@dataclass(frozen=True, slots=True)
class File:
    """A static file: its bytes, media type and SHA-256."""

    content: bytes
    kind: str
    digest: str


@cache
def files() -> dict[str, File]:
    """Return the served files by name. Licences and the list of vendored files are not among them."""
    return {path.name: _read(path) for path in FOLDER.iterdir() if path.suffix in _KINDS}


@cache
def together() -> str:
    """Return a digest of all files."""
    digests = {name: file.digest for name, file in files().items()}
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()[:16]


def address(name: str) -> str:
    """Return the path of a file below /pages."""
    assert name in files()
    return f"/static/{together()}/{name}"


@router.get("/{digest}/{name}")
def read(request: Request, digest: str, name: str) -> Response:
    """Serve a file, without a token."""
    file = files().get(name)
    if file is None or digest != together():
        raise ApiError("not_found")
    headers = {"ETag": f'"{file.digest}"', "Cache-Control": _FOR_GOOD}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(file.content, media_type=file.kind, headers=headers)


def _read(path: Path) -> File:
    content = path.read_bytes()
    return File(content, _KINDS[path.suffix], hashlib.sha256(content).hexdigest())
