"""Common functions of the generators in this folder."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "assay"

Schema = dict[str, Any]


def document() -> dict[str, Any]:
    """The OpenAPI document of the repository, with "nullable" instead of null among types, alternatives and values."""
    return json.loads(json.dumps(openapi(), sort_keys=True), object_hook=_without_null)


def openapi() -> dict[str, Any]:
    """The OpenAPI document of the repository, without the examples that a dispatcher adds."""
    return yaml.safe_load((ROOT.parent.parent / "api" / "openapi.yaml").read_text())


def _without_null(schema: Schema) -> Schema:
    """A schema with "nullable" instead of null."""
    if isinstance(schema.get("enum"), list):  # "" stands for an empty choice, for which Python uses None
        schema["enum"] = [v for v in schema["enum"] if v not in (None, "")]
    kinds = schema.get("type")
    if isinstance(kinds, list) and "null" in kinds:
        one = [k for k in kinds if k != "null"]  # pyright: ignore[reportUnknownVariableType]
        schema |= {"type": one[0], "nullable": True}
    for several in ("anyOf", "oneOf"):
        found = schema.get(several)
        nothing: list[Schema] = [{"type": "null"}, {"type": "string", "maxLength": 0}]
        if isinstance(found, list) and any(s in nothing for s in found):  # pyright: ignore[reportUnknownVariableType]
            rest = [s for s in found if s not in nothing]  # pyright: ignore[reportUnknownVariableType]
            del schema[several]
            schema |= {"nullable": True, "allOf" if len(rest) == 1 else several: rest}  # pyright: ignore[reportUnknownArgumentType]
    return schema


def fill(text: str, first: str, rest: str) -> str:
    """Text as a paragraph of a docstring."""
    clean = " ".join(text.replace("\\", "\\\\").split())
    return textwrap.fill(clean, 118, initial_indent=first, subsequent_indent=rest, break_long_words=False)


def formatted(text: str, target: Path) -> str:
    """Text as ruff formats it, with its imports in order."""
    for command in (["check", "--quiet", "--fix-only", "--select=I,F401"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, f"--stdin-filename={target}", "-"],
            input=text, capture_output=True, text=True, cwd=ROOT, check=True,
        )  # fmt: skip
        text = done.stdout
    return text


def write(files: dict[Path, str], check: bool) -> int:
    """Writes the files, or with check lists the outdated ones. Returns the exit code."""
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if check:
            print(f"{path.relative_to(ROOT)} is not what {sys.argv[0]} writes: run it", file=sys.stderr)
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(files[path])
    return 1 if check and stale else 0
