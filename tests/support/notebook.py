"""Run the notebooks of the documentation and store their outputs, which the site shows.

    python -m tests.support.notebook            # docs/notebook.ipynb
    python -m tests.support.notebook libraries  # docs/how-to/libraries.ipynb, made of the guide to integrations

A server must be running, as the notebooks say, without datasets called notebook and clinic. The second notebook needs
the libraries: run it with the Python of `.venv-integrations`. The first one needs Matplotlib.
"""

import ast
import base64
import contextlib
import io
import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"
FILE = DOCS / "notebook.ipynb"
GUIDE = DOCS / "how-to/integrations.md"
LIBRARIES = DOCS / "how-to/libraries.ipynb"
LIBRARIES_COMMAND = "run: .venv-integrations/bin/python -m tests.support.notebook libraries"
_UNRUN: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
_CODE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def output(cell: dict[str, Any]) -> str:
    """Return the stored output of a cell as text."""
    return "".join(line for each in cell.get("outputs", ()) for line in each["data"]["text/plain"])


def image(cell: dict[str, Any]) -> str | None:
    """Return the stored plot of a cell as a PNG file in base64; None if it has none."""
    return next((each["data"]["image/png"] for each in cell.get("outputs", ()) if "image/png" in each["data"]), None)


def run(cell: dict[str, Any], names: dict[str, Any]) -> str:
    """Run a code cell and return its output: the printed text, and the value of a last expression."""
    *body, end = ast.parse("".join(cell["source"])).body
    last = ast.Expression(end.value) if isinstance(end, ast.Expr) else None
    body += [end] if last is None else []
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(ast.Module(body, []), FILE.name, "exec"), names)
        value = None if last is None else eval(compile(last, FILE.name, "eval"), names)
    return printed.getvalue() + ("" if value is None else f"{value!r}\n")


def of_guide(text: str) -> list[dict[str, Any]]:
    """Return the cells of a page of Markdown: its Python blocks, and the text between them."""
    cells: list[dict[str, Any]] = []
    for number, part in enumerate(_CODE.split(text)):
        cell: dict[str, Any] = {
            "id": f"cell-{number}",
            "metadata": {},
            "source": part.strip().splitlines(keepends=True),
        }
        cell |= _UNRUN if number % 2 else {"cell_type": "markdown"}
        cells.append(cell)
    return [cell for cell in cells if cell["source"]]


def drawn() -> str | None:
    """Return the plot that a cell drew as a PNG file in base64, and close it; None if it drew none."""
    plt = sys.modules.get("matplotlib.pyplot")
    if plt is None or not plt.get_fignums():
        return None
    file = io.BytesIO()
    plt.gcf().savefig(file, format="png", dpi=60, bbox_inches="tight")
    plt.close("all")
    return base64.b64encode(file.getvalue()).decode()


def main() -> None:
    """Run the cells and write their outputs into the file."""
    file = LIBRARIES if sys.argv[1:] == ["libraries"] else FILE
    notebook = json.loads(FILE.read_text())
    if file == LIBRARIES:
        notebook["cells"] = of_guide(GUIDE.read_text())
        warnings.simplefilter("ignore")
    names: dict[str, Any] = {}
    for count, cell in enumerate((each for each in notebook["cells"] if each["cell_type"] == "code"), 1):
        data: dict[str, Any] = {"text/plain": run(cell, names).splitlines(keepends=True)}
        plot = drawn()
        data |= {} if plot is None else {"image/png": plot}
        result = {"output_type": "execute_result", "execution_count": count, "data": data, "metadata": {}}
        cell["execution_count"], cell["outputs"] = count, [result] if data["text/plain"] else []
    file.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
