"""Results as tables, with pandas or pyarrow."""

from __future__ import annotations

import json
from importlib import import_module
from typing import Any

from ._result import Result

COLUMNS: tuple[str, ...] = (
    *("index", "id", "name", "outcome", "score", "exit_code", "stdout", "stderr", "value", "message"),
    *("wall_ms", "cpu_ms", "memory_peak_bytes"),
)


def row(r: Result) -> dict[str, Any]:
    """A result as plain columns. value is JSON. Each label has a column of its own, label.NAME."""
    usage = r.part("usage")
    plain: dict[str, Any] = {
        "index": r.index,
        "id": r.id,
        "name": r.name,
        "outcome": r.outcome,
        "score": r.score if r.raw.get("tests") else None,
        "exit_code": r.exit_code,
        "stdout": r.stdout,
        "stderr": r.stderr,
        "value": None if r.value is None else json.dumps(r.value),
        "message": r.message,
    }
    plain.update((name, usage.get(name)) for name in COLUMNS[len(plain) :])
    return {**plain, **{f"label.{k}": v for k, v in r.labels.items()}}


def to_pandas(rows: list[dict[str, Any]]) -> Any:
    """Rows as a data frame."""
    return _needed("pandas").DataFrame(rows, columns=columns(rows))


def to_arrow(rows: list[dict[str, Any]]) -> Any:
    """Rows as an Arrow table."""
    names = columns(rows)
    return _needed("pyarrow").table({name: [r.get(name) for r in rows] for name in names})


def columns(rows: list[dict[str, Any]]) -> list[str]:
    """The plain columns, and a column for each label that some row has."""
    return list(dict.fromkeys([*COLUMNS, *(name for r in rows for name in r)]))


def _needed(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as e:
        raise ImportError(f"this needs {module}: pip install {module}", name=module) from e
