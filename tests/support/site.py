"""The hook of the site (mkdocs.yml): README.md is its first page, and what pages link to in other folders is there too.

A file stands there as its text, a folder as the list of its files, each under `source/`. Links stay as they are in the
repository, where they lead to the same things. Inner products stay what they are: <x, w> is no tag.

The copy button of a console session copies its commands, without prompts and outputs. User pages rank higher in the
search than proofs and decisions, and files of the repository are not searched.
"""

import html
import json
import os
import re
from pathlib import Path
from typing import Any

from markdown import Extension, Markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.support import notebook, reference
from tests.support.console import commands

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<=\]\()([^)#\s]+)")


COMMENT = re.compile(r"^<!--.*?-->$", re.MULTILINE | re.DOTALL)
HIGHLIGHTED = re.compile(r'<div class="highlight">(?=<pre><span></span><code>(.*?)</code></pre>)', re.DOTALL)
TAG = re.compile(r"<[^>]+>")
# Factors of the search: the concepts, other pages where a reader starts, pages for users, and pages for contributors.
CONCEPTS_BOOST, START_BOOST, USER_BOOST, CONTRIBUTOR_BOOST = 8.0, 4.0, 2.0, 0.2
CONCEPTS, START_PAGES = "concepts.md", {"index.md", "tutorial.md", "faq.md", "glossary.md"}
CONTRIBUTOR_PAGES = {"architecture.md", "reviewing.md", "releasing.md", "threat-tests.md"}
CONTRIBUTOR_FOLDERS = ("proofs/", "spec/", "decisions/", "benchmarks/", "reference/", "source/")
SEARCHED_FILES = {"source/CHANGELOG.md", "source/CONTRIBUTING.md", "source/SECURITY.md"}


class NoTags(Extension):  # type: ignore[misc]
    """A Markdown extension that treats every < as text."""

    def extendMarkdown(self, md: Markdown) -> None:
        """Nothing is read as HTML."""
        md.preprocessors.deregister("html_block")
        md.inlinePatterns.deregister("html")


def on_config(config: MkDocsConfig) -> None:
    """The patterns of the menu are replaced by their pages."""
    config.markdown_extensions.append(NoTags())
    named = set(listed(config.nav))
    config.nav = [_filled(item, named) for item in config.nav or ()]


def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add README.md as the first page, and all files outside of docs/ to which pages link."""
    files.append(File.generated(config, "index.md", content=(ROOT / "README.md").read_text()))
    for name, text in reference.pages().items():
        files.append(File.generated(config, f"reference/{name}.md", content=text))
    todo = [(file.src_uri, file.content_string) for file in files.documentation_pages()]
    while todo:
        page, text = todo.pop()
        for place in filter(None, (_place(page, link) for link in LINK.findall(text))):
            if files.get_file_from_path(place[0]) is None:
                todo.append((place[0], _rendered(place[1])))
                files.append(File.generated(config, place[0], content=todo[-1][1]))


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Its links, from where it lies on the site, and no comments."""
    page.meta.setdefault("search", search_options(page.file.src_uri))

    def led(match: re.Match[str]) -> str:
        place = _place(page.file.src_uri, match[1])
        return os.path.relpath(place[0], os.path.dirname(page.file.src_uri)) if place else match[1]

    return LINK.sub(led, COMMENT.sub("", markdown))


def on_page_content(html_text: str, **_: Any) -> str:
    """Give each console session the text that its copy button copies."""

    def with_commands(match: re.Match[str]) -> str:
        copied = commands(html.unescape(TAG.sub("", match[1])))
        return f'<div class="highlight" data-copy="{html.escape(copied)}">' if copied else match[0]

    return HIGHLIGHTED.sub(with_commands, html_text)


def search_options(page: str) -> dict[str, Any]:
    """Return a page's options for the search: user pages first, files of the repository not at all."""
    if page.startswith("source/") and page not in SEARCHED_FILES:
        return {"exclude": True}
    if page in CONTRIBUTOR_PAGES or page.startswith(CONTRIBUTOR_FOLDERS):
        return {"boost": CONTRIBUTOR_BOOST}
    if page == CONCEPTS:
        return {"boost": CONCEPTS_BOOST}
    return {"boost": START_BOOST if page in START_PAGES else USER_BOOST}


def listed(item: Any) -> list[str]:
    """The pages of a part of the menu."""
    match item:
        case str():
            return [item]
        case dict():
            return [page for part in item.values() for page in listed(part)]
        case _:
            return [page for part in item or () for page in listed(part)]


def _filled(item: Any, named: set[str]) -> Any:
    match item:
        case str():
            if "*" not in item:
                return item
            pages = sorted(str(page.relative_to(DOCS)) for page in DOCS.glob(item))
            return sorted(set(pages) - named, key=lambda page: (not page.endswith("README.md"), page))
        case dict():
            return {title: _filled(part, named) for title, part in item.items()}
        case _:
            return [_filled(part, named) for part in item]


def _place(page: str, link: str) -> tuple[str, Path] | None:
    """Return the page and the file to which a link leads, or None for other sites and missing files."""
    target = Path(os.path.normpath(_home(page).parent / link))
    if "://" in link or not target.exists() or not target.is_relative_to(ROOT):
        return None
    if (target / "README.md").exists():
        target /= "README.md"
    return _site(target), target


def _home(page: str) -> Path:
    """The file of the repository that a page shows."""
    if page == "index.md":
        return ROOT / "README.md"
    return ROOT / page.removeprefix("source/") if page.startswith("source/") else DOCS / page


def _site(target: Path) -> str:
    """The page that shows a file or a folder."""
    if target == ROOT / "README.md":
        return "index.md"
    if target.is_relative_to(DOCS) and target.is_file():
        return str(target.relative_to(DOCS)).replace(".ipynb", ".md")
    return f"source/{target.relative_to(ROOT)}" + ("" if target.suffix == ".md" else ".md")


def _rendered(target: Path) -> str:
    """Return Markdown as it is, a notebook as its cells, another file in a fence, and a folder as a list."""
    if target.suffix == ".md":
        return target.read_text()
    if target.suffix == ".ipynb":
        return "\n\n".join(map(_cell, json.loads(target.read_text())["cells"]))
    title = f"# {target.relative_to(ROOT)}\n\n"
    if target.is_dir():
        return title + "".join(f"- `{file.name}`\n" for file in sorted(target.iterdir()) if "__" not in file.name)
    language = {".py": "python", ".yaml": "yaml"}.get(target.suffix, "text")
    return f"{title}````{language}\n{target.read_text()}````\n"


def _cell(cell: dict[str, Any]) -> str:
    """Return a cell of a notebook as Markdown: its text, or its code and below it its output or its plot."""
    text, output, image = "".join(cell["source"]), notebook.output(cell), notebook.image(cell)
    if cell["cell_type"] != "code":
        return text
    rendered = (
        f'<img alt="Plot of the cell above" src="data:image/png;base64,{image}">' if image else f"```text\n{output}```"
    )
    return f"```python\n{text}\n```" + (f"\n\n{rendered}" if output else "")
