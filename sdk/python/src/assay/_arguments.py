"""Checks arguments before anything is sent. Errors name the argument and a remedy."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable, Mapping
from typing import Any, TypeAlias, cast

from .models._model import Model

LabelValue: TypeAlias = "str | int | float"
"""The value of a label. Numbers become text."""


def kind(value: Any) -> str:
    """The name of a value's type."""
    return type(value).__name__


def listed(name: str, value: Any, one: str) -> None:
    """TypeError if an argument is no list or other iterable. Text and objects are iterable, but no list.

    one is the remedy for a caller with one value.
    """
    single = isinstance(value, (str, bytes, bytearray, Mapping, Model))
    if single or not isinstance(value, (Iterable, AsyncIterable)):
        raise TypeError(f"{name}: is {kind(value)}, and must be a list; {one}")


def mapped(name: str, value: Any, example: str) -> dict[str, Any]:
    """A copy of a mapping with text as keys; empty for None. TypeError if it is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise TypeError(f"{name}: is {kind(value)}, and must be a dict such as {example}")
    out = dict(cast("Mapping[Any, Any]", value))
    for key in out:
        if not isinstance(key, str):
            raise TypeError(f"{name}: the key {key!r:.80} is {kind(key)}, and must be str")
    return out


def text(name: str, value: Any) -> None:
    """TypeError if an argument is neither text nor None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name}: is {kind(value)}, and must be str")


def labeled(labels: Any, name: str = "labels") -> dict[str, str]:
    """Labels as text. Numbers and bools, also of numpy, are converted; TypeError for other values."""
    out: dict[str, str] = {}
    for key, value in mapped(name, labels, '{"problem": "two-sum"}').items():
        if hasattr(value, "item") and getattr(value, "shape", None) == ():
            value = value.item()
        if not isinstance(value, (str, int, float)):
            raise TypeError(f"{name}[{key!r:.80}]: is {kind(value)}, and must be str or a number")
        out[key] = str(value)
    return out
