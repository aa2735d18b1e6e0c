"""The curl quickstart of docs/http.md runs as shown, from the token to a verified receipt."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.console import blocks
from tests.support.live import live
from tests.support.patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs/http.md"


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("jq")), reason="curl or jq is not installed")
def test_the_quickstart_prints_the_documents_on_the_page(tmp_path: Path) -> None:
    script = "set -euo pipefail\n" + "".join(blocks(PAGE, "sh"))
    with live(tmp_path / "home") as service:
        environment = {**os.environ, "PURSE_URL": service.url, "PURSE_TOKEN": service.token}
        result = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environment, timeout=PATIENCE, check=True, stdout=subprocess.PIPE
        )
    printed, expected = _documents(result.stdout.decode()), _documents("".join(blocks(PAGE, "text")))
    assert [_comparable(document) for document in printed] == [_comparable(document) for document in expected]
    assert printed[-1]["valid"] is True


def _comparable(document: Any) -> Any:
    """Return a document with numbers rounded, and without the values that noise changes."""
    if not isinstance(document, dict):
        return document
    noisy = {"coefficients", "intercept"} & set(document)
    return {
        name: "noisy" if name in noisy else round(value, 6) if isinstance(value, float) else value
        for name, value in document.items()
    }


def _documents(text: str) -> list[Any]:
    """Return the JSON documents that follow one another in a text."""
    decoder, documents = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        documents.append(document)
        text = text[end:]
    return documents
