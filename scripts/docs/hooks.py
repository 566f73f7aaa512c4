"""Hooks of mkdocs: add the pages outside of docs and the HTTP reference, and translate GitHub's Markdown.

The pages of this repository are written for GitHub. Here, a link to a file that is no page of the site becomes a link
to the repository. A link to a missing file is a warning, which fails a strict build.
"""

from __future__ import annotations

import ast
import json
import logging
import posixpath
import re
from pathlib import Path
from typing import Any

import openapi
import yaml
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
log = logging.getLogger("mkdocs.plugins.assay")

# Pages elsewhere in the repository, by their path in the site.
ELSEWHERE = {
    "index.md": "README.md",
    "pages.md": "docs/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "report.md": "SECURITY.md",
    "changelog.md": "CHANGELOG.md",
    "python.md": "sdk/python/README.md",
    "fleet.md": "sdk/fleet/README.md",
    **{
        f"examples/{name}.md": f"examples/{name}/README.md"
        for name in ("callbackreceiver", "egress", "forksearch", "humaneval", "sessioncallbacks")
    },
}
REFERENCE = "reference/http"

# places has the path in the site of each file of the repository that the site contains.
places: dict[str, str] = {}


def on_config(config: Any) -> Any:
    """Adds the decisions to the navigation, in the order of their numbers."""
    decisions = next(section["Decisions"] for section in config.nav if "Decisions" in section)
    decisions += [f"adr/{page.name}" for page in sorted((ROOT / "docs" / "adr").glob("0*.md"))]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages outside of docs and the references."""
    if (index := files.get_file_from_path("README.md")) is not None:
        files.remove(index)
    for place, path in ELSEWHERE.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / path)))
    places.clear()
    for file in files:
        if file.abs_src_path and Path(file.abs_src_path).is_relative_to(ROOT / "docs"):
            places["docs/" + file.src_uri] = file.src_uri
    places.update({path: place for place, path in ELSEWHERE.items()})
    places["api/openapi.yaml"] = REFERENCE + "/index.md"
    document = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text())
    examples = json.loads((ROOT / "api" / "examples.json").read_text())
    for name, text in openapi.pages(document, examples).items():
        files.append(File.generated(config, f"{REFERENCE}/{name}", content=text))
    for place, text in python_pages().items():
        files.append(File.generated(config, place, content=text))
    return files


def python_pages() -> dict[str, str]:
    """Returns the pages of the Python reference: the public names of the module, by the module that defines them."""
    functions: list[str] = []
    classes: list[str] = []
    defaults: list[str] = []  # methods of the default client
    errors: list[str] = []
    coroutines: list[str] = []
    for node in ast.parse((ROOT / "sdk" / "python" / "src" / "assay" / "__init__.py").read_text()).body:
        if not isinstance(node, ast.ImportFrom) or node.module in (None, "_version"):
            continue
        names = [name.name for name in node.names]
        if node.module.startswith("_async."):
            coroutines += names
        elif node.module == "_errors":
            errors += names
        elif node.module == "_default":
            defaults += [n for n in names if n != "default_client"]
        else:
            functions += [n for n in names if n.islower()]
            classes += [n for n in names if not n.islower()]

    def section(names: list[str]) -> str:
        return "\n\n".join(f"::: assay.{name}" for name in names)

    methods = ", ".join(f"[`assay.{name}`][assay.Client.{name}]" for name in defaults)
    intro = f"{methods} call the methods of [the default client][assay.default_client]."
    functions.insert(0, "default_client")
    return {
        "reference/python.md": f"# Python client\n\n{intro}\n\n{section([*functions, *classes, *errors])}\n",
        "reference/python-async.md": f"# Python client for asyncio\n\n{section(coroutines)}\n",
    }


FENCE = re.compile(r"^(\s*)(```+)(.*)$")
LINK = re.compile(r"\]\(([^)\s]+)\)")
LIST = re.compile(r"(-|\*|1\.) ")


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Translates the links, fences and lists of a page of the repository."""
    if not page.file.abs_src_path:
        return markdown
    path = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        mark = FENCE.match(line)
        if mark and not fence:
            fence = mark[2]
            lines.append(f"{mark[1]}{fence}{information(mark[3])}")
            continue
        if mark and mark[2] == fence and not mark[3]:
            fence = ""
        elif not fence:
            if starts_block(line, lines[-1] if lines else ""):
                lines.append("")
            if line.startswith("  - "):  # GitHub nests at two spaces
                line = "  " + line
            line = LINK.sub(lambda link: f"]({target(link[1], path, page.file.src_uri, config.repo_url)})", line)
        lines.append(line)
    return "\n".join(lines)


def information(words: str) -> str:
    """Returns the information of a fence: a file name becomes its title, and words for tests are removed."""
    kind, _, rest = words.strip().partition(" ")
    return f'{kind} title="{rest}"' if "." in rest else kind


def starts_block(line: str, before: str) -> bool:
    """Reports whether a list or a table starts in the line after a paragraph or a comment, which GitHub permits."""
    if not before.strip() or before.startswith(" "):
        return False
    if line.startswith("|"):
        return not before.startswith("|")
    return bool(LIST.match(line)) and not re.match(r"(-|\*|\d+\.) ", before)


def target(link: str, path: str, place: str, repository: str) -> str:
    """Returns the address of a link of the page at path, from its place in the site."""
    if "://" in link or link.startswith(("#", "mailto:")):
        return link
    name, _, anchor = link.partition("#")
    found = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
    if found in places:
        to = posixpath.relpath(places[found], posixpath.dirname(place) or ".")
        return f"{to}#{anchor}" if anchor else to
    if not (ROOT / found).exists():
        log.warning("%s: %s does not exist", path, link)
        return link
    return f"{repository}/{'tree' if (ROOT / found).is_dir() else 'blob'}/main/{found}"
