"""Decodes values in the tagged encoding of the API: see _values.

They come from sandboxes, so decoding takes time linear in the input and runs none of their code.
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import fractions
import re
from collections.abc import Callable
from typing import Any, cast

from ._values import ELEMENTS, FACTORIES


def decode(value: Any) -> Any:
    """The Python value of JSON in the tagged encoding. ValueError, TypeError or RecursionError if it is invalid."""
    kind = cast("Any", type(value))
    if kind is list:
        return [decode(v) for v in value]
    if kind is not dict:
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag[:1] == "$":
            return _untagged(tag[1:], content)
    return {k: decode(v) for k, v in value.items()}


def _untagged(tag: str, v: Any) -> Any:
    if tag in ("tuple", "set", "frozenset"):
        return {"tuple": tuple, "set": set, "frozenset": frozenset}[tag](decode(x) for x in _list(v))
    if tag == "dict":
        return {decode(k): decode(x) for k, x in _list(v)}
    if tag == "int" and isinstance(v, str) and re.fullmatch(r"-?(0x[0-9a-fA-F]+|[0-9]{1,4000})", v):
        return int(v, 0)
    if tag == "float" and v in ("nan", "inf", "-inf"):
        return float(v)
    if tag == "complex":
        real, imag = _list(v)
        return complex(float(decode(real)), float(decode(imag)))
    if tag == "str":
        return base64.b64decode(v, validate=True).decode("utf-8", "surrogatepass")
    if tag in ("bytes", "bytearray"):
        data = base64.b64decode(v, validate=True)
        return data if tag == "bytes" else bytearray(data)
    if tag == "std":
        name, parts = _list(v)
        return _made(name, [decode(x) for x in _list(parts)])
    if tag == "ndarray":
        return _array(*_list(v))
    raise ValueError(f"${tag:.20} is not a tag of a value")


def _list(v: Any) -> list[Any]:
    if type(v) is not list:
        raise ValueError("not a list")
    return cast("list[Any]", v)


def _made(name: Any, parts: list[Any]) -> Any:
    kind = STANDARD[name]
    make = cast("Callable[..., Any]", kind)
    if kind is collections.defaultdict:
        factory, items = parts
        return make(None if factory is None else FACTORIES[factory], items)
    if not all(type(p) in (TYPES.get(kind) or (dict,)) for p in parts):
        raise ValueError(f"{name} is not made of that")
    if len(parts) == FOLDED.get(kind):
        return make(*parts[:-1], fold=parts[-1])
    return make(*parts)


FOLDED: dict[Any, int] = {datetime.datetime: 9, datetime.time: 6}
"""Number of parts of a time whose last part is its fold."""

TYPES: dict[type, tuple[type, ...]] = {
    fractions.Fraction: (int,),
    decimal.Decimal: (str,),
    datetime.date: (int,),
    datetime.time: (int, datetime.timezone, type(None)),
    datetime.datetime: (int, datetime.timezone, type(None)),
    datetime.timedelta: (int,),
    datetime.timezone: (datetime.timedelta, str),
    range: (int,),
    collections.deque: (list, int),
}
"""Allowed types of the parts of standard types."""

STANDARD: dict[str, type] = {
    f"{k.__module__}.{k.__name__}": k
    for k in (*TYPES, collections.OrderedDict, collections.Counter, collections.defaultdict)
}


def _array(elements: Any, shape: Any, data: Any) -> Any:
    if not ELEMENTS.fullmatch(elements) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("not an array")
    import numpy

    raw = base64.b64decode(data, validate=True)
    if 0 in shape and not raw:
        return numpy.zeros(shape, elements)
    return cast("Any", numpy.frombuffer(raw, elements)).reshape(shape).copy()
