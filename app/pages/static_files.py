"""Scripts, styles and pictures of the pages, at paths that contain a digest of all of them.

A path therefore never changes its content, and browsers may store it for good. All files share one digest, so that
modules can import each other by relative paths.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import Response

from app.http.errors import ApiError
from app.http.queries import strict_router
from app.pages.session import PREFIX

FOLDER = Path(__file__).parent / "static"
_MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable"}

router = strict_router(prefix=f"{PREFIX}/static", include_in_schema=False)


@cache
def files() -> dict[str, bytes]:
    """Return the served files by name. Licences and the list of vendored files are not among them."""
    return {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.suffix in _MEDIA_TYPES}


@cache
def together() -> str:
    """Return a digest of all files."""
    return hashlib.sha256(repr(sorted(files().items())).encode()).hexdigest()[:16]


def address(name: str) -> str:
    """Return the path of a file below /pages."""
    assert name in files()
    return f"/static/{together()}/{name}"


@router.get("/{digest}/{name}")
def read(digest: str, name: str) -> Response:
    """Serve a file, without a token."""
    if name not in files() or digest != together():
        raise ApiError("not_found")
    return Response(files()[name], headers=_HEADERS, media_type=_MEDIA_TYPES[Path(name).suffix])
