"""Encodes Python values in the tagged encoding of the API: as JSON if JSON can represent them, else with a tag.

docs/grading.md lists the tags. encode refuses other values with an UnsendableError.
"""

from __future__ import annotations

import base64
import collections
import datetime
import decimal
import enum
import fractions
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, cast

from ._errors import UnsendableError

MAX_BYTES: Final = 8 << 20
"""Most bytes of a value, approximately."""

MAX_VALUES: Final = 400_000
"""Most values inside one value."""

MAX_DEPTH: Final = 150
"""Most levels of nested values."""

MAX_JSON_DEPTH: Final = 200
"""Most levels of JSON. A tag takes one or two more than its value."""

MAX_BITS: Final = 1 << 20
"""Most bits of an int."""

PLAIN_BITS: Final = 4096
"""Bits of an int above which it is written in hexadecimal: JSON readers limit decimal digits."""

ELEMENTS: Final = re.compile(r"[<>|](b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,5})")
"""Types of the elements of numpy arrays that can be sent, in numpy's notation."""

SCALARS: Final = "biufcSU"
"""Kinds of numpy scalars that can be sent. The item of a void of bytes would arrive as bytes."""

FACTORIES: Final[dict[str, Any]] = {f.__name__: f for f in (bool, int, float, str, bytes, list, tuple, set, dict)}
"""Default factories of a defaultdict that can be sent."""


class Tagged:
    """JSON that is already in the tagged encoding, and is sent unchanged.

    Without it, a dict such as {"$set": [1]} arrives as that dict. It may replace a value, the tests of grade, or a
    whole job: grade(solutions, Tagged(json.load(file))).
    """

    __slots__ = ("json",)

    def __init__(self, json: Any) -> None:
        self.json = json

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tagged) and self.json == other.json

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Tagged({self.json!r})"


def encode(value: Any, at: str) -> Any:
    """The value in the tagged encoding. UnsendableError names the part that cannot be sent, by its path beneath at."""
    return Encoder().encode(value, at)


def encode_all(values: Mapping[str, Any], at: str) -> tuple[dict[str, Any], bool]:
    """Values by name in the tagged encoding, and whether that differs from plain JSON."""
    out: dict[str, Any] = {}
    tagged = False
    for name, value in values.items():
        encoder = Encoder()
        out[name] = encoder.encode(value, f"{at}[{quoted(name)}]")
        tagged = tagged or encoder.tagged
    return out, tagged


class Encoder:
    """Encodes one value.

    Attributes:
        tagged: whether the encoding has a tag, so that it differs from plain JSON.
    """

    def __init__(self, room: int = MAX_BYTES, arrays: bool = True) -> None:
        self._arrays = arrays
        self.tagged = False
        self._limit = self._room = room
        self._left = MAX_VALUES
        self._open: set[int] = set()

    def encode(self, value: Any, at: str) -> Any:
        """The value as JSON. Call it once."""
        try:
            return self._any(value, 0, 0)
        except _Refused as e:
            raise UnsendableError(at + e.path(), e.problem) from None
        except RecursionError:
            raise UnsendableError(at, "is nested too deep for the stack of this thread") from None

    def _any(self, value: Any, depth: int, levels: int) -> Any:
        kind = cast("Any", type(value))
        if value is None or kind is bool:
            return value
        self._left -= 1
        if self._left < 0:
            raise _Refused(f"has more than {MAX_VALUES} values")
        if kind is int:
            return self._int(value)
        if kind is float:
            self._spend(8)
            return value if value - value == 0 else self._tag("float", repr(value))
        if kind is str:
            return self._str(value)
        if type(kind) is not type and kind is not fractions.Fraction:
            raise unsendable(value, kind)  # without calling a method of its metaclass
        if kind is list or kind is dict or kind in CONTAINERS:
            if id(value) in self._open:
                raise _Refused(f"is a {kind.__name__} that contains itself; send a value without cycles")
            if depth >= MAX_DEPTH or levels >= MAX_JSON_DEPTH - 3:
                raise _Refused(f"is nested too deep: at most {MAX_DEPTH} levels, of which a tuple or set counts twice")
            self._open.add(id(value))
            try:
                return self._container(value, kind, depth + 1, levels + 1)
            finally:
                self._open.discard(id(value))
        return self._other(value, kind, depth, levels)

    def _container(self, value: Any, kind: type, depth: int, levels: int) -> Any:
        if kind is list:
            return self._items(value, depth, levels)
        if kind is dict:
            return self._dict(value, depth, levels)
        if kind is tuple or kind is set or kind is frozenset:
            items = self._items(value, depth, levels + 1, ordered=kind is tuple)
            return self._tag(kind.__name__, items)
        if kind is collections.deque:
            parts: list[Any] = [self._items(value, depth, levels + 2)]
            return self._standard(kind, parts if value.maxlen is None else [*parts, value.maxlen])
        parts = [self._dict(value, depth, levels + 2)]
        if kind is collections.defaultdict:
            factory = value.default_factory
            name = next((n for n, f in FACTORIES.items() if f is factory), None)
            if factory is not None and name is None:
                raise _Refused(
                    f"has the default_factory {shown(factory)}; send a dict, or use one of {', '.join(FACTORIES)}"
                )
            parts.insert(0, name)
        return self._standard(kind, parts)

    def _items(self, values: Iterable[Any], depth: int, levels: int, ordered: bool = True) -> list[Any]:
        out: list[Any] = []
        try:
            for v in values:
                out.append(self._any(v, depth, levels))
        except _Refused as e:
            e.parts.append(f"[{len(out)}]" if ordered else ".member")
            raise
        return out

    def _dict(self, value: Any, depth: int, levels: int) -> Any:
        plain = all(type(k) is str and encodable(k) for k in value)
        if plain and len(value) == 1 and next(iter(value))[:1] == "$":
            plain = False
        out: Any = {} if plain else []
        key: Any = None
        try:
            for key, v in value.items():
                if plain:
                    self._spend(len(key))
                    out[key] = self._any(v, depth, levels)
                else:
                    out.append([self._key(key, depth, levels + 2), self._any(v, depth, levels + 2)])
        except _Refused as e:
            if not e.in_key:
                e.parts.append(f"[{quoted(key)}]")
            e.in_key = False
            raise
        return out if plain else self._tag("dict", out)

    def _key(self, key: Any, depth: int, levels: int) -> Any:
        try:
            return self._any(key, depth, levels)
        except _Refused as e:
            e.parts.append(".key")
            e.in_key = True
            raise

    def _int(self, value: int) -> Any:
        bits = value.bit_length()
        if bits <= PLAIN_BITS:
            self._spend(bits // 3)
            return value
        if bits > MAX_BITS:
            raise _Refused(f"is an int of {bits} bits, and may have {MAX_BITS}; send it as text or bytes")
        self._spend(bits // 4)
        return self._tag("int", hex(value))

    def _str(self, value: str) -> Any:
        self._spend(len(value))
        if encodable(value):
            return value
        return self._tag("str", base64.b64encode(value.encode("utf-8", "surrogatepass")).decode())

    def _other(self, value: Any, kind: type, depth: int, levels: int) -> Any:
        if kind is bytes or kind is bytearray:
            self._spend(len(value) * 4 // 3)
            return self._tag(kind.__name__, base64.b64encode(value).decode())
        if kind is complex:
            return self._tag("complex", [self._any(x, depth, levels) for x in (value.real, value.imag)])
        if kind in PARTS:
            return self._standard(kind, [self._any(x, depth, levels + 2) for x in PARTS[kind](value)])
        if kind is Tagged:
            self.tagged = True
            return value.json
        if is_named_tuple(kind):
            return self._any(tuple(value), depth, levels)
        numpy = sys.modules.get("numpy")
        if (
            numpy is not None
            and issubclass(kind, numpy.generic)
            and kind.__module__ == "numpy"
            and value.dtype.kind in SCALARS
        ):
            item: Any = value.item()
            if type(item) in (bool, int, float, complex, str, bytes):
                return self._any(item, depth, levels)
        if numpy is not None and kind is numpy.ndarray and self._arrays and ELEMENTS.fullmatch(value.dtype.str):
            self._spend(value.nbytes * 4 // 3)
            data = base64.b64encode(value.tobytes()).decode()
            return self._tag("ndarray", [value.dtype.str, list(value.shape), data])
        raise unsendable(value, kind)

    def _standard(self, kind: type, parts: list[Any]) -> Any:
        return self._tag("std", [f"{kind.__module__}.{kind.__name__}", parts])

    def _tag(self, tag: str, content: Any) -> dict[str, Any]:
        self.tagged = True
        self._spend(12)
        return {"$" + tag: content}

    def _spend(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise _Refused(f"has more than {self._limit >> 20} MiB; send it as a file")


class _Refused(Exception):
    """A part that cannot be sent. Its path is collected from the inside to the outside."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.parts: list[str] = []
        self.in_key = False

    def path(self) -> str:
        parts = self.parts[::-1]
        if len(parts) > 20:
            parts[10:-10] = ["…"]
        return "".join(parts)


def unsendable(value: Any, kind: type) -> _Refused:
    """The refusal of a value of a type that cannot be sent."""
    try:
        return _Refused(f"{name_of(kind)[:200]} cannot be sent; {remedy(value, kind)}")
    except Exception:  # attributes of the value or its class may run code
        return _Refused(f"{type.__repr__(kind)[:200]} cannot be sent; {BUILD}")


def _time_zone(value: datetime.timezone) -> list[Any]:
    return list(cast("Any", value).__getinitargs__())


def _zone_of(value: datetime.datetime | datetime.time) -> list[Any]:
    """The last arguments of a time: its zone and its fold, if it has them."""
    zone = value.tzinfo
    if zone is not None and type(zone) is not datetime.timezone:
        error = unsendable(zone, type(zone))
        error.problem = error.problem.partition(";")[0] + "; convert the value by astimezone(datetime.timezone.utc)"
        error.parts.append(".tzinfo")
        raise error
    return [zone, value.fold] if value.fold else [] if zone is None else [zone]


def _date_time(v: datetime.datetime) -> list[Any]:
    return [v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond, *_zone_of(v)]


PARTS: dict[type, Callable[[Any], list[Any]]] = {
    fractions.Fraction: lambda v: [v.numerator, v.denominator],
    decimal.Decimal: lambda v: [str(v)],
    datetime.date: lambda v: [v.year, v.month, v.day],
    datetime.time: lambda v: [v.hour, v.minute, v.second, v.microsecond, *_zone_of(v)],
    datetime.datetime: _date_time,
    datetime.timedelta: lambda v: [v.days, v.seconds, v.microseconds],
    datetime.timezone: _time_zone,
    range: lambda v: [v.start, v.stop, v.step],
}
"""Standard types without items, and the parts of their values."""

CONTAINERS: Final = frozenset(
    (tuple, set, frozenset, collections.deque, collections.OrderedDict, collections.Counter, collections.defaultdict)
)
"""Types with items, besides list and dict."""


BUILD: Final = "send plain data, and build the object from it in the sandbox"


def encodable(text: str) -> bool:
    """Whether text has no lone surrogates, which JSON cannot carry, and no NUL, which some databases cannot."""
    if text.isascii():
        return "\0" not in text
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def is_named_tuple(kind: type) -> bool:
    return kind.__bases__ == (tuple,) and type(getattr(kind, "_fields", None)) is tuple


def name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def quoted(key: Any) -> str:
    """A key in a path: text in double quotes, others as Python writes them."""
    text = '"' + key[:80].replace("\\", "\\\\").replace('"', '\\"') + '"' if type(key) is str else shown(key)
    return text if encodable(text) else text.encode("ascii", "backslashreplace").decode()


def shown(value: Any) -> str:
    """The repr of a value, truncated."""
    try:
        return repr(value)[:80]
    except Exception:  # a very long int, or a class of the caller
        return f"<{type(value).__qualname__}>"


def remedy(value: Any, kind: type) -> str:
    """How to send a value of a type that cannot be sent."""
    module = kind.__module__.split(".")[0]
    if isinstance(value, enum.Enum):
        return "send its .value"
    if module == "pandas":
        return "send its to_dict() or to_numpy()"
    if kind.__name__ in ("datetime64", "timedelta64"):
        return "send its item()"
    if module == "numpy":
        return "send its tolist()" if hasattr(value, "__len__") else "send float(…) of it"
    for base in (bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict):
        if isinstance(value, base):
            return f"send {base.__name__}(…) of it"
    if isinstance(value, Mapping):
        return "send dict(…) of it"
    if hasattr(kind, "__dataclass_fields__"):
        return "send dataclasses.asdict(…) of it"
    if hasattr(kind, "__fspath__"):
        return "send str(…) of it"
    if hasattr(kind, "__iter__"):
        return "send list(…) of it"
    if isinstance(value, datetime.tzinfo):
        return "send a datetime.timezone"
    return BUILD
