"""Sent values arrive unchanged, or are refused with their path before anything is sent."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import numpy
import pytest

import assay
from assay._decoding import decode
from assay._values import encode

UTC = datetime.timezone.utc
EAST = datetime.timezone(datetime.timedelta(hours=2, minutes=30))
Point = collections.namedtuple("Point", "x y")

VALUES: dict[str, Any] = {
    "int": 1,
    "big int": 10**5000,
    "negative big int": -(2**4097),
    "float": 0.1,
    "negative zero": -0.0,
    "bool": True,
    "None": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "-inf": [float("-inf")],
    "complex": 1.5 - 2j,
    "complex nan": complex(0, float("nan")),
    "int key": {1: 2},
    "None key": {None: 5},
    "bool key": {True: 5},
    "float key": {1.5: 5},
    "tuple key": {(1, 2): 5},
    "bytes key": {b"a": {2: 3}},
    "frozenset key": {frozenset({1}): 1},
    "text and int keys": {"1": "text", 1: "int"},
    "tuple": (1, 3),
    "empty tuple": (),
    "tuples in lists": [("a", 2), ("b", [(1,)])],
    "set": {1, 2},
    "empty set": set[int](),
    "frozenset": frozenset({(1, "a")}),
    "bytes": b"a\xff\0",
    "bytearray": bytearray(b"x"),
    "dollar": {"$gt": 5},
    "tag as text": {"$set": [1]},
    "tag inside": [{"$tuple": {"$dict": 1}}],
    "two dollars": {"$a": 1, "$b": 2},
    "lone dollar": {"$": None},
    "surrogate": "a\ud83d",
    "NUL": "a\0b",
    "surrogate key": {"\udcff": "\udcff"},
    "text": "ä\U0001f600",
    "empty": [{}, [], ""],
    "Decimal": decimal.Decimal("1.10"),
    "Decimal exponent": decimal.Decimal("-1E+2000"),
    "Fraction": fractions.Fraction(-1, 3),
    "date": datetime.date(2024, 2, 29),
    "time": datetime.time(23, 59, 59, 999999),
    "time with zone": datetime.time(1, 2, tzinfo=EAST),
    "datetime": datetime.datetime(1, 1, 1),
    "fold": datetime.datetime(2024, 1, 1, fold=1),
    "datetime with zone": datetime.datetime(2024, 1, 2, 3, 4, 5, 6, UTC),
    "timedelta": datetime.timedelta(-1, 5, 7),
    "timezone": EAST,
    "named zone": datetime.timezone(datetime.timedelta(0), "here"),
    "range": range(1, 10, 3),
    "deque": collections.deque([1, (2,)], maxlen=5),
    "OrderedDict": collections.OrderedDict([(2, 1), (1, 2)]),
    "Counter": collections.Counter("aab"),
    "defaultdict": collections.defaultdict(list, {1: [2]}),
    "plain defaultdict": collections.defaultdict(None, a=1),
}


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal with the types of all their parts."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple, collections.deque)):
        return len(a) == len(b) and all(map(same, a, b)) and getattr(a, "maxlen", 0) == getattr(b, "maxlen", 0)
    if isinstance(a, dict):
        factories = getattr(a, "default_factory", 0) is getattr(b, "default_factory", 0)
        pairs = zip(sorted(a.items(), key=repr), sorted(b.items(), key=repr))
        return len(a) == len(b) and factories and all(same(k, m) and same(v, w) for (k, v), (m, w) in pairs)
    if isinstance(a, (set, frozenset)):
        return a == b and sorted(map(repr, a)) == sorted(map(repr, b))
    return a == b if isinstance(a, int) else repr(a) == repr(b)


@pytest.mark.parametrize("name", VALUES)
def test_encoding_is_lossless(name: str) -> None:
    value = VALUES[name]
    assert same(decode(json.loads(json.dumps(encode(value, "x"), allow_nan=False))), value)


def test_values_that_arrive_as_plainer_ones() -> None:
    """Named tuples arrive as tuples, and scalars of numpy as the numbers that they are."""
    for value, want in (
        (Point(1, (2,)), (1, (2,))), (numpy.int8(3), 3), (numpy.float64(0.5), 0.5), (numpy.bool_(True), True),
        (numpy.complex64(1j), 1j), (numpy.str_("a"), "a"), ([numpy.float32("nan")], [float("nan")]),
    ):  # fmt: skip
        assert same(decode(encode(value, "x")), want)


def test_arrays_of_numpy() -> None:
    for array in (
        numpy.arange(6.0).reshape(2, 3), numpy.array([True, False]), numpy.array(5), numpy.array(["a", "bc"]),
        numpy.zeros((0, 3), "i2"), numpy.array([1, 2], ">i4"), numpy.array([1j]), numpy.arange(10)[::2],
    ):  # fmt: skip
        back = decode(encode(array, "x"))
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert (back == array).all()


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class MyInt(int):
    pass


class MyDict(dict[str, int]):
    pass


@dataclasses.dataclass
class Record:
    x: int


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


def cycle() -> Any:
    value: list[Any] = [1]
    value.append({"self": value})
    return value


REFUSED: dict[str, tuple[Any, str]] = {
    "object": ({"x": [object()]}, 'cases[3].expected["x"][0]: object cannot be sent; send plain data'),
    "enum": (Color.RED, "Color cannot be sent; send its .value"),
    "IntEnum": ([Level.LOW], "cases[3].expected[0]: values_test.Level cannot be sent; send its .value"),
    "subclass of int": (MyInt(1), "MyInt cannot be sent; send int(…) of it"),
    "subclass of dict": ((MyDict(),), "MyDict cannot be sent; send dict(…) of it"),
    "dataclass": (Record(1), "send dataclasses.asdict(…) of it"),
    "path": (Path("a"), "send str(…) of it"),
    "generator": ((i for i in "a"), "generator cannot be sent; send list(…) of it"),
    "function": (print, "cannot be sent"),
    "class": (int, "cannot be sent"),
    "module": (json, "cannot be sent"),
    "zone": (
        datetime.datetime(2024, 1, 1, tzinfo=ZoneInfo("UTC")),
        "cases[3].expected.tzinfo: zoneinfo.ZoneInfo cannot",
    ),
    "factory": (collections.defaultdict(lambda: 1), "has the default_factory <function"),
    "key": ({(1, Color.RED): 1}, "cases[3].expected.key[1]: values_test.Color cannot be sent"),
    "beneath a key": ({(1, 2): {b"a": {None: object()}}}, "cases[3].expected[(1, 2)][b'a'][None]: object"),
    "member": ({frozenset({Color.RED})}, "cases[3].expected.member.member: values_test.Color"),
    "cycle": (cycle(), 'cases[3].expected[1]["self"]: is a list that contains itself'),
    "deep list": (nested(100_000, lambda v: [v]), "is nested too deep"),
    "deep tuple": (nested(120, lambda v: (v,)), "is nested too deep"),
    "deep dict": (nested(160, lambda v: {"a": v}), "is nested too deep"),
    "huge text": ("x" * (9 << 20), "cases[3].expected: has more than 8 MiB"),
    "huge list": ([[0] * 1000] * 1000, "has more than 400000 values"),
    "huge int": (1 << (2 << 20), "is an int of 2097153 bits"),
    "array of objects": (numpy.array([object()]), "numpy.ndarray cannot be sent; send its tolist()"),
    "datetime64": (numpy.datetime64("2024-01-01"), "send its item()"),
    "long double": (numpy.longdouble(1), "send float(…) of it"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_values_are_named_by_their_path(name: str) -> None:
    value, says = REFUSED[name]
    tests = {"function": "f", "cases": [{"args": [1], "expected": 1}] * 3 + [{"args": [1], "expected": value}]}
    with assay.Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(assay.UnsendableError) as refused:
        client.grade(["def f(x): return x"], tests)
    assert says in str(refused.value)
    assert refused.value.path.startswith("cases[3].expected")
    assert len(str(refused.value)) < 400
    assert isinstance(refused.value, TypeError)
    assert isinstance(refused.value, ValueError)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_paths_of_refused_values() -> None:
    bad = object()
    case = {"args": [1], "expected": 1}
    with assay.Client("http://127.0.0.1:1", patience=0) as client:
        for tests, path in (
            ({"cases": [{"args": [1, bad]}]}, "cases[0].args[1]"),
            ({"cases": [{"kwargs": {"k": [bad]}}]}, 'cases[0].kwargs["k"][0]'),
            ([{"cases": [case]}, {"cases": [case, {"args": [bad]}]}], "tests[1].cases[1].args[0]"),
        ):
            with pytest.raises(assay.UnsendableError) as refused:
                client.grade(["x"] * (2 if isinstance(tests, list) else 1), tests)
            assert refused.value.path == path
        with pytest.raises(assay.UnsendableError) as refused:
            client.run("x", variables={"x": bad})
        assert refused.value.path == 'variables["x"]'
        for kind, program, path in (
            ("python", {"code": "x", "variables": {"x": {1: bad}}}, 'variables["x"][1]'),
            ("python", {"code": "x", "context": (bad,)}, "context[0]"),
            ("tests", {"code": "x", "cases": [{"args": [bad]}]}, "cases[0].args[0]"),
        ):
            with pytest.raises(assay.UnsendableError) as refused:
                client.run({"program": {kind: program}})
            assert refused.value.path == f"program.{kind}.{path}"


def test_text_in_place_of_a_list_is_refused() -> None:
    tests = {"function": "f", "cases": [{"args": [1], "expected": 1}]}
    with assay.Client("http://127.0.0.1:1", patience=0) as client:
        with pytest.raises(TypeError, match="solutions: is str, and must be a list"):
            client.grade("def f(x): return x", tests)
        with pytest.raises(TypeError, match="tests: is str"):
            client.grade(["def f(x): return x"], "assert f(1) == 1")  # pyright: ignore[reportArgumentType]
        with pytest.raises(TypeError, match=r"files: '/workspace/a' is int"):
            client.run("1", files={"/workspace/a": 1})  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("name", VALUES)
def test_values_of_cases_arrive_equal(client: assay.Client, name: str) -> None:
    """The value is passed to the solution and expected from it; its repr shows its type."""
    value = VALUES[name]
    echo = "def f(x, r=None):\n    return x\n"
    shown = "def f(x, r=None):\n    return hex(x) if type(x) is int else repr(x)\n"
    tests = [
        {
            "function": "f",
            "cases": [{"args": [value], "expected": value}, {"kwargs": {"x": [value]}, "expected": [value]}],
        },
        {"function": "f", "cases": [{"args": [value], "expected": hex(value) if type(value) is int else repr(value)}]},
    ]
    rewards = client.grade([echo, shown], tests)
    assert rewards == [1.0, 1.0], [r.feedback for r in rewards.results]


def test_files_may_be_paths(client: assay.Client, tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"\xff\0")
    code = "open('/workspace/a.bin', 'rb').read().hex()"
    assert client.run(code, files={"/workspace/a.bin": tmp_path / "a.bin"}).value == "ff00"


def test_tagged_json_is_sent_as_it_is(client: assay.Client) -> None:
    """JSON with tags keeps its meaning as a value, as tests, and as a whole job."""
    case = {"args": [{"$tuple": [1]}], "expected": {"$set": [1]}}
    tests = {"function": "set", "cases": [case]}
    assert client.grade(["set = set"], assay.Tagged(tests)) == [1.0]
    wrapped = {"function": "set", "cases": [{"args": [assay.Tagged({"$tuple": [1]})], "expected": {1}}]}
    assert client.grade(["set = set"], wrapped) == [1.0]
    job = assay.Tagged({"program": {"tests": {**tests, "code": "set = set"}}})
    assert [r.score for r in client.map([job])] == [1.0]
    assert client.run(job).score == 1.0
    plain = client.grade(
        ["def f(x):\n    return sorted(x)\n"], {"function": "f", "cases": [{**case, "expected": ["$tuple"]}]}
    )
    assert plain == [1.0]


SHOW = "hex(x) if type(x) is int else repr(x)"


def shown(value: Any) -> str:
    return hex(value) if type(value) is int else repr(value)


def alike(found: Any, value: Any) -> bool:
    """Whether a repr is the value's. Sets may be in another order there."""
    return sorted(found) == sorted(shown(value))


def test_variables_arrive_equal_and_come_back(client: assay.Client) -> None:
    """As variables of jobs, one job for each value."""
    for code in (SHOW, "x"):
        jobs = [{"program": {"python": {"code": code, "variables": {"x": value}}}} for value in VALUES.values()]
        for name, result in zip(VALUES, client.map(jobs, order="input")):
            same_value = alike(result.value, VALUES[name]) if code == SHOW else same(result.value, VALUES[name])
            assert same_value, (name, code, result.raw)


def test_context_arrives_equal(client: assay.Client) -> None:
    job = {"program": {"python": {"code": "context[1][(1, 2)], type(context).__name__", "context": (0, {(1, 2): {3}})}}}
    assert client.run(job).value == ({3}, "tuple")


def test_session_variables_arrive_equal_and_come_back(session: assay.Session) -> None:
    for name, value in VALUES.items():
        session.variables["x"] = value
        assert alike(session.run(SHOW).value, value), name
        assert same(session.variables["x"], value), name
        assert same(session.run("y", variables={"y": [value]}).value, [value]), name
    session.set_context({1: (2,)})
    assert session.run("context").value == {1: (2,)}


def test_long_session_variables_come_back(session: assay.Session) -> None:
    """Values beyond what fits into the answer of an execution."""
    value = [(i, {i}) for i in range(30_000)]
    session.variables["x"] = value
    assert session.variables["x"] == value


def test_values_without_a_tag_come_back_as_repr(session: assay.Session) -> None:
    session.run("class C(int): pass\nx = []\nx.append(x)\nfor i in range(300): y = (i,) if i == 0 else (y,)")
    for code, want in (
        ("C(5)", "5"),
        ("[x]", "[[[...]]]"),
        ("{1: {C(5)}}", "{1: {5}}"),
        ("iter", "<built-in function iter>"),
    ):
        assert session.run(code).value == want
    assert session.run("y").value[:5] == "((((("
    assert session.variables["x"] == "[[...]]"


def test_arrays_of_numpy_come_back(session: assay.Session) -> None:
    if not session.run("import numpy").ok:
        with pytest.raises(assay.InvalidError, match="numpy"):
            session.variables["x"] = numpy.array([1, 2])
        return
    session.variables["x"] = numpy.array([[1, 2]], "i2")
    assert session.run("x.dtype.str, x.shape").value == ("<i2", (1, 2))
    assert (session.variables["x"] == numpy.array([[1, 2]])).all()


def test_names_of_variables_are_identifiers_of_python(session: assay.Session, client: assay.Client) -> None:
    """Python writes identifiers in the form NFKC: the two spellings of a name are one variable."""
    for i, name in enumerate(("é", "数", "ﬁ", "Ⅷ", "x\u0301", "e\u0301", "ª", "µ", "a·b", "\U0001d4d0", "℘", "변수")):
        session.variables[name] = i
        assert session.run(name).value == i
        assert session.variables[name] == i
        assert name in session.variables
        assert session.run(name, variables={name: -i}).value == -i
        assert client.run(name, variables={name: i}).value == i
        del session.variables[name]
        assert name not in session.variables
    for name in ("1x", "a b", "a-b", "", "²", "€", "a\u20dd", "a.b", "\u0301"):
        with pytest.raises(ValueError, match="is not the name of a variable"):
            session.variables[name] = 1
        with pytest.raises(assay.InvalidError):
            session.run("1", variables={name: 1})


def test_unknown_tags_are_errors(session: assay.Session, client: assay.Client) -> None:
    job = assay.Tagged({"program": {"python": {"code": "x", "variables": {"x": {"$none": 1}}, "tagged": True}}})
    assert "$none is not a tag" in client.run(job).exception.message
    with pytest.raises(assay.InvalidError, match=r"\$none is not a tag"):
        session.variables["x"] = assay.Tagged({"$none": 1})


def test_matching_rules(client: assay.Client) -> None:
    """The defaults of grade are for cases and tests without a rule of their own."""
    tuples, keys = "def f(x):\n    return (x, (x,))\n", "def f(x):\n    return {x: (x,)}\n"
    for code, expected in ((tuples, [1, [1]]), (keys, {"1": [1]})):
        tests = {"function": "f", "cases": [{"args": [1], "expected": expected}]}
        assert client.grade([code], tests) == [0.0]
        assert client.grade([code], tests, match="json") == [1.0]
        assert client.grade([code], {**tests, "match": "json"}) == [1.0]
        assert client.grade([code], {**tests, "match": "python"}, match="json") == [0.0]
        case = {**tests["cases"][0], "match": "json"}
        assert client.grade([code], {**tests, "cases": [case]}) == [1.0]
    tests = {"function": "f", "cases": [{"args": [0.1], "expected": [0.3]}]}
    code = "def f(x):\n    return [x + 2 * x]\n"
    assert client.grade([code], tests) == [0.0]
    assert client.grade([code], tests, tolerance=1e-9) == [1.0]
    assert client.grade([code], {**tests, "relative_tolerance": 1e-9}) == [1.0]
    assert client.grade([code], {**tests, "absolute_tolerance": 1e-20}, tolerance=1e-30) == [0.0]


def test_long_numbers_of_json(client: assay.Client) -> None:
    """Whole numbers of more digits than Python reads, as plain JSON has them."""
    tests = '{"function": "f", "code": "f = lambda n: n + 1", "cases": [{"args": [9%s], "expected": 1%s}]}'
    body = ('{"program": {"tests": %s}}' % (tests % ("9" * 5000, "0" * 5001))).encode()
    answer = httpx.post(client.url + "/v1/run", content=body, headers={"Content-Type": "application/json"}, timeout=60)
    assert answer.json()["tests"]["score"] == 1


def test_one_unreadable_solution_fails_alone(client: assay.Client) -> None:
    tests = {"function": "f", "cases": [{"args": [1], "expected": 1}]}
    good = "def f(x):\n    return x\n"
    bad = ["x = '\ud83d'", "\udcff", "", "\0", "x = '\ud800\udc00'", good + "#" * (2 << 20), "not code"]
    labels = [{"problem": "a\ud83d"}] * (len(bad) + 2)
    rewards = client.grade([good, *bad, good], tests, labels=labels)
    assert rewards == [1.0, *[0.0] * len(bad), 1.0]
    assert rewards.labels[0] == {"problem": "a\ud83d"}
    assert client.grade(["\ud83d"], tests) == [0.0]
    results = list(client.map([*bad, "1"], on_error="return"))
    assert results[-1].value == 1


def test_timed_out_is_a_failure_of_its_own(client: assay.Client) -> None:
    tests = {"function": "f", "cases": [{"args": [1], "expected": 1}]}
    code = "def f(x):\n    %s\n"
    solutions = [
        code % body for body in ("while x: pass", "return 2", "return x / 0", "return x", "import os; os.abort()")
    ]
    rewards = client.grade(solutions, tests, case_wall=1)
    assert rewards.failures() == {"timed_out": 1, "failed": 1, "ZeroDivisionError": 1, "signaled": 1}


def test_expected_arrays_are_refused() -> None:
    tests = {"function": "f", "cases": [{"args": [numpy.array([1])], "expected": [numpy.array([1])]}]}
    with assay.Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(assay.UnsendableError) as refused:
        client.grade(["x"], tests)
    assert str(refused.value) == "cases[0].expected[0]: numpy.ndarray cannot be sent; send its tolist()"
