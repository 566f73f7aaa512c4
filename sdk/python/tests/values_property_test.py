"""Random values arrive equal and with equal types, or the client refuses them before it sends anything.

ASSAY_PROPERTY_VALUES sets the number of values of each kind: 300 by default, the same ones in each run.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import os
import re
import threading
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import assay
from assay._sessions import MOST_VARIABLE

COUNT = int(os.environ.get("ASSAY_PROPERTY_VALUES", "300"))
BATCH = 100

# Runs here and in the sandbox. The digest covers types, order of dicts, signs of zeros, folds and factories.
DESCRIBE = """
def describe(x):
    kind = type(x).__name__
    if isinstance(x, dict):
        parts = [describe(k) + ":" + describe(v) for k, v in x.items()]
        parts.append(repr(getattr(x, "default_factory", None)))
    elif isinstance(x, (set, frozenset)):
        parts = sorted(map(describe, x))
    elif isinstance(x, (list, tuple)) or kind == "deque":
        parts = [describe(v) for v in x] + [repr(getattr(x, "maxlen", None))]
    elif kind == "complex":
        parts = [repr(x.real), repr(x.imag)]
    else:
        parts = [hex(x) if kind == "int" else ascii(x)]
    return kind + "(" + ",".join(parts) + ")"

def digest(x):
    import hashlib
    return hashlib.sha256(describe(x).encode()).hexdigest()[:16]
"""
here: dict[str, Any] = {}
exec(DESCRIBE, here)

Point = collections.namedtuple("Point", "x y")
FACTORIES = (None, bool, int, float, str, bytes, list, tuple, set, dict)

zones = st.none() | st.builds(
    datetime.timezone, st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23))
)
named_zones = st.builds(
    datetime.timezone, st.timedeltas(datetime.timedelta(hours=-23), datetime.timedelta(hours=23)), st.text(max_size=5)
)
characters = st.characters(exclude_categories=()) | st.sampled_from("\0\ud800\udfff$\n\"\\'\x7f\u2028\U0001f600")
texts = st.text(characters, max_size=12) | st.sampled_from(
    ["", "$", "$set", "$tuple", "$dict", "$std", "$at", "$n", "__class__", "é" * 100]
)
integers = (
    st.integers()
    | st.integers(-(10**400), 10**400)
    | st.builds(
        lambda e, d, s: s * (2**e + d),
        st.sampled_from([31, 53, 63, 64, 1024, 4096, 20000]),
        st.integers(-2, 2),
        st.sampled_from([1, -1]),
    )
)
decimals = st.decimals() | st.sampled_from(
    [
        decimal.Decimal(s)
        for s in ("-0", "0E+5", "1E+999999", "1E-999999", "sNaN", "NaN123", "-sNaN7", "-Infinity", "1.10")
    ]
)
# Each of these is hashable.
leaves = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(),
    st.complex_numbers(),
    texts,
    st.binary(max_size=20),
    decimals,
    st.fractions(),
    st.dates(),
    st.timedeltas(),
    st.builds(lambda z: z or datetime.timezone.utc, zones),
    named_zones,
    st.times(timezones=zones),
    st.datetimes(timezones=zones),
    st.builds(lambda t, f: t.replace(fold=f), st.datetimes(timezones=zones) | st.times(timezones=zones), st.just(1)),
    st.sampled_from([range(True), range(numpy.int8(3)), fractions.Fraction(True)]),
    st.builds(range, st.integers(-50, 50), st.integers(-50, 50), st.sampled_from([-7, -1, 1, 3])),
)
keys = st.recursive(
    leaves.filter(lambda x: not (isinstance(x, decimal.Decimal) and x.is_snan())),  # has no hash
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, max_size=4)
    dicts = st.dictionaries(keys, inner, max_size=4) | st.dictionaries(texts, inner, max_size=4)
    return st.one_of(
        lists,
        lists.map(tuple),
        dicts,
        st.builds(lambda k, v: {"$" + k: v}, texts, inner),
        st.sets(keys, max_size=4),
        st.frozensets(keys, max_size=4),
        st.builds(collections.deque, lists, st.none() | st.integers(0, 6)),
        dicts.map(collections.OrderedDict),
        dicts.map(collections.Counter),
        st.builds(collections.defaultdict, st.sampled_from(FACTORIES), dicts),
        st.binary(max_size=20).map(bytearray),
    )


def deep(value: Any, depth: int, wrap: Callable[[Any], Any]) -> Any:
    for _ in range(depth):
        value = wrap(value)
    return value


WRAPS: list[Callable[[Any], Any]] = [lambda v: [v], lambda v: {"a": v}]
values = st.recursive(leaves, containers, max_leaves=12) | st.builds(
    deep, leaves, st.integers(50, 140), st.sampled_from(WRAPS)
)

numbers = st.sampled_from(
    [
        numpy.int8(-3),
        numpy.uint64(2**64 - 1),
        numpy.float16(0.1),
        numpy.float32("nan"),
        numpy.float64("-inf"),
        numpy.complex64(1 - 2j),
        numpy.complex128(-0.0),
        numpy.bool_(True),
        numpy.str_("a\ud800"),
        numpy.bytes_(b"a\xff"),
        fractions.Fraction(numpy.int64(3), numpy.int64(6)),
    ]
)


def plain(value: Any) -> Any:
    """The value as it arrives: named tuples as tuples, scalars of numpy as Python's."""
    if type(value) is Point:
        return tuple(plain(v) for v in value)
    if isinstance(value, numpy.generic):
        return value.item()
    return value


def draw(strategy: st.SearchStrategy[Any], count: int = COUNT) -> list[Any]:
    """Examples of a strategy."""
    found: list[Any] = []

    @settings(
        max_examples=count,
        derandomize="ASSAY_PROPERTY_VALUES" not in os.environ,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def add(value: Any) -> None:
        found.append(value)

    add()
    assert len(found) >= count // 2
    return found


@pytest.fixture(scope="module")
def sendable() -> list[Any]:
    special = numbers | st.builds(Point, leaves, numbers)
    return draw(values) + draw(special, min(COUNT, 30))


def batches(items: list[Any]) -> Iterator[list[Any]]:
    for i in range(0, len(items), BATCH):
        yield items[i : i + BATCH]


def digest(value: Any) -> str:
    return here["digest"](plain(value))


def report(bad: list[tuple[Any, Any]]) -> str:
    return f"{len(bad)} values differ: " + "\n".join(f"{repr(v)[:500]}: {str(why)[:700]}" for v, why in bad[:5])


def test_random_values_are_passed_and_expected_as_they_are(client: assay.Client, sendable: list[Any]) -> None:
    """One solution returns its argument, which has to equal the expected value; one returns a digest of it."""
    echo, shown = "def f(x):\n    return x\n", DESCRIBE + "\ndef f(x):\n    return digest(x)\n"
    jobs = [
        (batch, code, wanted)
        for batch in batches(sendable)
        for code, wanted in ((echo, batch), (shown, [digest(v) for v in batch]))
    ]
    tests = [
        {"function": "f", "cases": [{"args": [v], "expected": w} for v, w in zip(batch, wanted)]}
        for batch, _, wanted in jobs
    ]
    rewards = client.grade([code for _, code, _ in jobs], tests, policy={"wall": "5m", "cpu_time": "5m"})
    bad: list[tuple[Any, Any]] = []
    for (batch, _, _), result in zip(jobs, rewards.results):
        cases = result.part("tests")["cases"]
        assert len(cases) == len(batch), result.feedback
        bad += [(v, c) for v, c in zip(batch, cases) if not c["passed"]]
    assert not bad, report(bad)


def test_random_variables_of_jobs_arrive(client: assay.Client, sendable: list[Any]) -> None:
    bad: list[tuple[Any, Any]] = []
    for batch in batches(sendable):
        named = {f"v{i}": v for i, v in enumerate(batch)}
        code = DESCRIBE + f"[digest(globals()['v%d' % i]) for i in range({len(batch)})]"
        found = client.run(code, variables=named).value
        bad += [(v, "arrives otherwise") for v, d in zip(batch, found) if d != digest(v)]
    assert not bad, report(bad)


def test_random_variables_of_sessions_arrive_and_come_back(session: assay.Session, sendable: list[Any]) -> None:
    session.run(DESCRIBE)
    bad: list[tuple[Any, Any]] = []
    for batch in batches(sendable):
        session.variables["x"] = batch
        found, back = session.run("[digest(v) for v in x]").value, session.variables["x"]
        assert type(back) is list, repr(back)[:500]
        bad += [(v, "arrives otherwise") for v, d in zip(batch, found) if d != digest(v)]
        bad += [(v, f"comes back as {b!r}") for v, b in zip(batch, back) if digest(b) != digest(v)]
    assert not bad, report(bad)


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Text(str):
    pass


class Items(list[Any]):
    pass


class Pairs(dict[str, Any]):
    pass


class Named(Point):
    pass


@dataclasses.dataclass(frozen=True)
class Record:
    x: int


class Hostile:
    """Its attributes and its class raise."""

    def __getattribute__(self, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __repr__(self) -> str:
        raise ZeroDivisionError

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    def __hash__(self) -> int:
        return object.__hash__(self)


class HostileFactory(Hostile):
    def __call__(self) -> Any:
        raise ZeroDivisionError


class Meta(type):
    def __getattr__(cls, name: str) -> Any:
        raise ZeroDivisionError(name)

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__", "__name__", "__bases__", "_fields"):
            raise ZeroDivisionError(name)
        return super().__getattribute__(name)


class HostileClass(metaclass=Meta):
    pass


class Comparing(type):
    def __eq__(cls, other: object) -> bool:  # so its classes have no hash
        return NotImplemented


class Unhashable(metaclass=Comparing):
    pass


class Zone(datetime.tzinfo, metaclass=Meta):
    pass


class OddModule:
    __module__ = 5  # pyright: ignore[reportAssignmentType]


def cycle(kind: str) -> Any:
    if kind == "deque":
        value: Any = collections.deque()
        value.append([value])
    elif kind == "tuple":
        inner: list[Any] = []
        value = (inner,)
        inner.append(value)
    elif kind in ("dict", "Counter", "OrderedDict"):
        value = {"dict": dict, "Counter": collections.Counter, "OrderedDict": collections.OrderedDict}[kind]()
        value["x"] = {"y": value}
    else:
        value = []
        value.append(value)
    return value


def function(x: Any) -> Any:
    return x


# Above the limit of a variable of a session, which is larger than that of a test.
LARGE = "x" * (MOST_VARIABLE + 1)
LARGE_BYTES = b"x" * (MOST_VARIABLE * 3 // 4 + 16)

REFUSED: list[Callable[[], Any]] = [
    object,
    lambda: Color.RED,
    lambda: Level.LOW,
    lambda: Text("a"),
    lambda: Items(),
    lambda: Pairs(a=1),
    lambda: Named(1, 2),
    lambda: Record(1),
    Hostile,
    HostileClass,
    OddModule,
    Unhashable,
    lambda: datetime.time(1, tzinfo=Zone()),
    lambda: collections.defaultdict(HostileFactory()),
    lambda: type("N" * 5000, (), {})(),
    lambda: HostileClass,
    lambda: print,
    lambda: function,
    lambda: int,
    lambda: re,
    lambda: iter([1]),
    lambda: (i for i in "a"),
    lambda: map(str, []),
    lambda: {}.keys(),
    lambda: {1: 2}.items(),
    lambda: memoryview(b"a"),
    lambda: types.MappingProxyType({}),
    lambda: types.SimpleNamespace(a=1),
    lambda: array.array("i", [1]),
    lambda: re.compile("a"),
    lambda: uuid.UUID(int=1),
    lambda: Path("a"),
    lambda: ValueError("x"),
    lambda: Ellipsis,
    lambda: NotImplemented,
    threading.Lock,
    lambda: datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
    lambda: ZoneInfo("UTC"),
    lambda: slice(1),
    lambda: super(Text, Text("a")),
    lambda: collections.defaultdict(lambda: 1),
    lambda: collections.UserDict(),
    lambda: collections.ChainMap(),
    lambda: numpy.array([object()]),
    lambda: numpy.datetime64("2024-01-01"),
    lambda: numpy.longdouble(1),
    lambda: numpy.dtype("i4"),
    lambda: numpy.ma.array([1]),
    lambda: numpy.zeros(1, [("a", "i4")]),
    lambda: numpy.void(b"a"),
    lambda: 1 << (1 << 20),
    lambda: LARGE,
    lambda: LARGE_BYTES,
    lambda: deep(1, 151, WRAPS[0]),
    lambda: deep(1, 200, WRAPS[1]),
    lambda: deep(1, 20_000, WRAPS[0]),
    lambda: deep((), 120, lambda v: (v,)),
    *[lambda kind=kind: cycle(kind) for kind in ("list", "dict", "tuple", "deque", "Counter", "OrderedDict")],
]

siblings = st.lists(leaves, max_size=2)
hashable = (
    Color.RED,
    Level.LOW,
    Text("a"),
    Record(1),
    print,
    Hostile(),
    uuid.UUID(int=1),
    1 << (1 << 20),
    re.compile("a"),
)


def around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Values that contain one of inner."""
    items = st.builds(lambda a, v, b: [*a, v, *b], siblings, inner, siblings)
    dicts = st.builds(lambda d, k, v: {**d, k: v}, st.dictionaries(keys, leaves, max_size=2), keys, inner)
    return st.one_of(
        items,
        items.map(tuple),
        dicts,
        items.map(collections.deque),
        dicts.map(collections.OrderedDict),
        dicts.map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, leaves, inner),
    )


HOLD: list[Callable[[Any], Any]] = [
    lambda h: {h},
    lambda h: frozenset({h, 1}),
    lambda h: {h: 1},
    lambda h: {(1, h): 1},
    lambda h: {frozenset({h}): [1]},
]
in_keys = st.builds(lambda i, k: HOLD[k](hashable[i]), st.integers(0, len(hashable) - 1), st.integers(0, len(HOLD) - 1))
refused = st.recursive(st.integers(0, len(REFUSED) - 1).map(lambda i: REFUSED[i]()) | in_keys, around, max_leaves=3)


@pytest.mark.parametrize("index", range(len(REFUSED)))
def test_each_value_that_cannot_be_sent_is_refused(index: int) -> None:
    with assay.Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(assay.UnsendableError):
        client.run("x", variables={"x": REFUSED[index]()})


def test_random_values_that_cannot_be_sent_are_refused(session: assay.Session) -> None:
    bad: list[tuple[str, Any]] = []
    with assay.Client("http://127.0.0.1:1", patience=0) as client:
        for value in draw(refused):
            tests = {"function": "f", "cases": [{"args": [value], "expected": 1}]}
            expected = {"function": "f", "cases": [{"args": [1], "expected": [value]}]}
            for start, send in (
                ("cases[0].args[0]", lambda: client.grade(["def f(x): return x"], tests)),  # noqa: B023
                ("cases[0].expected[0]", lambda: client.grade(["def f(x): return x"], expected)),  # noqa: B023
                ('variables["x"]', lambda: client.run("x", variables={"x": value})),  # noqa: B023
                ("x", lambda: session.variables.update(x=value)),  # noqa: B023
            ):
                try:
                    send()
                except assay.UnsendableError as e:
                    if e.path.startswith(start) and len(str(e)) < 1000:
                        continue
                    bad.append((start, e))
                except Exception as e:
                    bad.append((start, repr(e)))
                else:
                    bad.append((start, f"is sent: {type(value)}"))
    assert not bad, report(bad)
