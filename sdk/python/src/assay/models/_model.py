"""Common base of all generated models: they read and write JSON."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar, cast

M = TypeVar("M", bound="Model")


class Field(NamedTuple):
    """The name of a field in JSON, and how to read it."""

    name: str
    wire: str
    shape: str  # a model's name, [name] for a list, {name} for an object of them, "@" for a time, "" for plain JSON
    zero: str  # kind of the value if the server omits it; "" if it may be None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A JSON object of the API. Unknown fields of a newer server are ignored."""

    _shapes: ClassVar[dict[str, str]] = {}
    _wires: ClassVar[dict[str, str]] = {}
    _zeros: ClassVar[dict[str, str]] = {}

    @classmethod
    def from_dict(cls: type[M], data: Mapping[str, Any]) -> M:
        """Reads the model from a JSON object.

        Unknown fields are ignored; missing fields are None, or empty if the API always has them.
        """
        values: dict[str, Any] = {}
        for f in _fields(cls):
            value = data.get(f.wire)
            if value is None:
                values[f.name] = _zero(cls, f.zero)
            else:
                values[f.name] = _read(cls, f.shape, value) if f.shape else value
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """The model as a JSON object, without fields that are None."""
        return {k: to_json(v) for k, v in self.fields().items()}

    def fields(self) -> dict[str, Any]:
        """The values of its fields by their names in JSON, except None."""
        found = ((f.wire, getattr(self, f.name)) for f in _fields(type(self)))
        return {wire: value for wire, value in found if value is not None}


@cache
def _fields(cls: type[Model]) -> tuple[Field, ...]:
    return tuple(
        Field(f.name, cls._wires.get(f.name, f.name), cls._shapes.get(f.name, ""), cls._zeros.get(f.name, ""))  # pyright: ignore[reportPrivateUsage]
        for f in dataclasses.fields(cls)
    )


def _named(cls: type[Model], name: str) -> type[Model]:
    return cast("type[Model]", getattr(sys.modules[cls.__module__], name))


def _read(cls: type[Model], shape: str, value: Any) -> Any:
    if shape == "@":
        return parse_time(value)
    if shape[0] == "[":
        return [_read(cls, shape[1:-1], v) for v in value]
    if shape[0] == "{":
        return {k: _read(cls, shape[1:-1], v) for k, v in value.items()}
    return _named(cls, shape).from_dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


_ZEROS: dict[str, Any] = {"str": "", "int": 0, "float": 0.0, "bool": False}


def _zero(cls: type[Model], kind: str) -> Any:
    if not kind:
        return None
    if kind == "list":
        return list[Any]()
    if kind == "dict":
        return dict[str, Any]()
    if kind == "time":
        return datetime.fromtimestamp(0, timezone.utc)
    return _ZEROS[kind] if kind in _ZEROS else _named(cls, kind).from_dict({})


def parse_time(text: str) -> datetime:
    """Reads a time of RFC 3339, truncated to microseconds."""
    text = text.strip().upper().replace("Z", "+00:00")
    head, sign, zone = text[:19], "", ""
    for i, c in enumerate(text[19:], 19):
        if c in "+-":
            head, sign, zone = text[:i], c, text[i + 1 :]
            break
    if "." in head:
        whole, fraction = head.split(".")
        head = f"{whole}.{fraction[:6]:0<6}"
    return datetime.fromisoformat(f"{head}{sign}{zone}")


def to_json(value: Any) -> Any:
    """A value as plain JSON: models, in lists and in dicts too, become dicts."""
    if isinstance(value, Model):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(k): to_json(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [to_json(v) for v in cast("list[Any]", value)]
    if isinstance(value, datetime):
        return value.isoformat()
    return value
