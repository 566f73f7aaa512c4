"""Extracts code from answers of models, and tests from data sets, for the reward functions of trainers."""

from __future__ import annotations

import ast
import builtins
import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, cast

from .._code import MODULES, SETUP, setup_without
from .._values import Tagged

NATIVE = frozenset(("function", "functions", "cases", "check", "stdio"))
"""Fields of the API's tests. Tests have at least one of them."""

CALLS = """
import json
CASES = json.loads({cases!r})
def keys(value):
    try:
        return {{int(k): v for k, v in value.items()}} if isinstance(value, dict) else value
    except ValueError:
        return value
def plain(value):
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return {{k: plain(v) for k, v in value.items()}} if isinstance(value, dict) else value
def call(number):
    args, want = CASES[number]
    got = candidate(*([keys(args[0])] if len(args) == 1 else args))
    first = want[0] if isinstance(want, list) and want else want
    assert any(plain(got) == w for w in (want, first, keys(want), keys(first))), f"got {{got!r}}, expected {{want!r}}"
"""
"""A check of calls. It compares as JSON does: tuples are lists, numeric keys are numbers, and [x] is x."""


def to_tests(truth: Any, code: str = "", *, first: int | None = None, **stdio: Any) -> dict[str, Any]:
    """Tests as in the API, from a ground truth: JSON text, or its decoded value.

    Args:
        truth: {"inputs": […], "outputs": […]}, with "fn_name" for calls instead of programs that read and write;
            {"assert_case": […]}; or tests as in the API.
        code: the solution; only its names are used.
        first: the number of cases to take; None: all.
        stdio: further fields of each case of standard input, such as compare and wall.

    Raises:
        ValueError: it has none of these forms, or contradicts itself.
    """
    given = decoded(truth)
    if NATIVE & given.keys():
        return as_json(given) if isinstance(truth, (str, bytes)) else native(truth)
    if isinstance(asserts := given.get("assert_case"), list):
        if any(given.get("outputs") or ()):
            raise ValueError("ground truth: outputs beside assert_case: which of them decides cannot be known")
        return setup(check_of_asserts(asserts[:first], code))
    inputs, outputs = given.get("inputs"), given.get("outputs")
    if not isinstance(inputs, list) or not isinstance(outputs, list):
        raise ValueError(f"ground truth: has {', '.join(given) or 'nothing'}, and needs inputs and outputs, as lists")
    if len(inputs) != len(outputs) or not inputs:
        raise ValueError(f"ground truth: there are {len(inputs)} inputs and {len(outputs)} outputs")
    pairs = list(zip(inputs, outputs))[:first]
    if name := given.get("fn_name"):
        return setup({"function": function_of(str(name), code), "check": check_of_calls(pairs)})
    if any(out is None for _, out in pairs):
        raise ValueError("ground truth: outputs: one is null, and a program cannot be judged without")
    cases = [{"stdin": text(i), "stdout": text(o), **stdio} for i, o in pairs]
    # An import from __future__ must come first in a program.
    return {"stdio": cases} if re.search(r"^from __future__ ", code, re.M) else {"setup": SETUP, "stdio": cases}


def setup(tests: dict[str, Any]) -> dict[str, Any]:
    """Tests with SETUP, but without its names that the solution should define."""
    names = [tests["function"], *tests.get("functions", ())]
    return {"setup": setup_without(names), **tests}


def as_json(tests: dict[str, Any]) -> dict[str, Any]:
    """Tests from JSON text: values may have tags, and are compared as JSON unless the tests specify otherwise."""
    if not isinstance(cases := tests.get("cases"), list) or not cases:
        return tests
    values = ("args", "kwargs", "expected")
    marked = [
        {k: tagged(v) if k in values else v for k, v in cast("dict[str, Any]", c).items()} if isinstance(c, dict) else c
        for c in cast("list[Any]", cases)
    ]
    return {"match": "json", **tests, "cases": marked}


def tagged(value: Any) -> Any:
    """Values of JSON text for sending; tagged ones keep their tags."""
    if isinstance(value, list):
        return [tagged(v) if not isinstance(v, list) else Tagged(v) for v in cast("list[Any]", value)]
    return value if isinstance(value, (str, int, float, NoneType)) else Tagged(value)


def native(truth: Mapping[str, Any]) -> dict[str, Any]:
    """Tests as objects with Python values. Tables store lists as numpy arrays, and fill missing fields with None."""
    return {str(k): lists(v) for k, v in truth.items() if v is not None}


def lists(value: Any) -> Any:
    """A value with lists instead of arrays."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if type(value) is dict:
        return {k: lists(v) for k, v in cast("dict[Any, Any]", value).items()}
    if type(value) in (list, tuple):
        return type(value)(lists(v) for v in value)
    return value


def decoded(truth: Any) -> dict[str, Any]:
    """A decoded ground truth, without numpy arrays and the fields that tables fill with None."""
    if isinstance(truth, (str, bytes)):
        try:
            truth = json.loads(truth)
        except ValueError as e:
            raise ValueError(f"ground truth: is no JSON: {e}") from None
    if not isinstance(truth, Mapping):
        raise ValueError(f"ground truth: is {type(truth).__name__}, and must be an object, or JSON text of one")
    fields = {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", truth).items()}
    return {k: v for k, v in fields.items() if v is not None}


def plain(value: Any) -> Any:
    """A value in the types of JSON."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return [plain(v) for v in cast("Sequence[Any]", value)]
    return value


def text(value: Any) -> str:
    """An input or output, which may be given as a list of lines."""
    return "\n".join(map(str, cast("list[Any]", value))) if isinstance(value, list) else str(value)


def function_of(name: str, code: str) -> str:
    """The called name: a function, or a method of the class Solution if there is no such function."""
    function = rf"^(async\s+def\s+{re.escape(name)}\b|def\s+{re.escape(name)}\b|{re.escape(name)}\s*[:=])"
    method = re.search(r"^class\s+Solution\b", code, re.M) and not re.search(function, code, re.M)
    return f"Solution().{name}" if method else name


def check_of_calls(pairs: Sequence[tuple[Any, Any]]) -> str:
    """A check with one test for each pair of arguments and result. Arguments are JSON texts, one per line, or lists."""
    cases: list[tuple[Any, Any]] = []
    for i, (args, want) in enumerate(pairs):
        try:
            lines = [json.loads(line) for line in args.split("\n")] if isinstance(args, str) else args
        except ValueError:
            raise ValueError(f"ground truth: inputs: number {i} is not one JSON value a line") from None
        if not isinstance(lines, list):
            raise ValueError(f"ground truth: inputs: number {i} is {type(args).__name__}, and must be text or a list")
        cases.append((lines, result_of(want)))
    tests = "".join(f"def test_{i + 1}(): call({i})\n" for i in range(len(cases)))
    return CALLS.format(cases=json.dumps(cases)) + tests


def result_of(output: Any) -> Any:
    """The expected result of a call: JSON text, or other text, which stands for itself."""
    try:
        return json.loads(output) if isinstance(output, str) else output
    except ValueError:
        return output


def check_of_asserts(asserts: Sequence[Any], code: str) -> dict[str, Any]:
    """A check with one test for each text of assertions, and the functions of the solution that they call."""
    bodies: list[list[ast.stmt]] = []
    for i, given in enumerate(asserts):
        try:
            bodies.append(ast.parse(textwrap.dedent(str(given))).body)
        except (SyntaxError, ValueError) as e:
            raise ValueError(f"ground truth: assert_case: number {i} is no Python: {e}") from None
    names = under_test([s for body in bodies for s in body], code)
    tests: list[str] = []
    for i, body in enumerate(bodies):
        module = ast.parse(f"def test_{i + 1}(): pass")
        cast("ast.FunctionDef", module.body[0]).body = body or [ast.Pass()]
        tests.append(ast.unparse(ast.fix_missing_locations(module)))
    out: dict[str, Any] = {"function": names[0], "check": "\n".join(tests)}
    return {**out, "functions": names[1:]} if names[1:] else out


def under_test(statements: Sequence[ast.stmt], code: str) -> list[str]:
    """The names that assertions need from the solution: used, and provided by nothing else."""
    names = list(dict.fromkeys(free_names(statements)))
    own = {n for n in names if re.search(rf"^(?:async\s+def|def|class)\s+{n}\b|^{n}\s*[:=]", code, re.M)}
    if found := [n for n in names if n in own or (n not in dir(builtins) and n not in MODULES)] or names:
        return found
    raise ValueError("ground truth: assert_case: calls no function of the solution")


def free_names(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Used names, in order, that the statements themselves do not bind."""
    nodes = [node for s in statements for node in ast.walk(s)]
    bound = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    bound |= {n.arg for n in nodes if isinstance(n, ast.arg)}
    bound |= {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    bound |= {(n.asname or n.name).split(".")[0] for n in nodes if isinstance(n, ast.alias)}
    uses = [n for n in nodes if isinstance(n, ast.Name) and n.id not in bound]
    yield from (n.id for n in sorted(uses, key=lambda n: (n.lineno, n.col_offset)))
