"""The executor of OpenEnv's REPL environment: each method and each field of a result, as the reference has them.

A row of the table in docs/integrations/interpreters.md ("The REPL executor") names a test of this file.
"""

from __future__ import annotations

import gc
import inspect
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.compat.openenv import PythonExecutor, with_value


@pytest.fixture
def executor(client: assay.Client) -> Iterator[PythonExecutor]:
    with PythonExecutor(client=client) as e:
        yield e


FIELDS = {"stdout", "stderr", "locals_snapshot", "execution_time", "success", "exception"}


def test_interface() -> None:
    """The reference's methods, with its arguments in its order."""
    signatures = {
        "__init__": ["max_output_length", "allowed_imports"],
        "set_context": ["context", "variable_name"],
        "set_variable": ["name", "value"],
        "get_variable": ["name"],
        "list_variables": [],
        "execute": ["code"],
        "reset": [],
        "inject_function": ["name", "func"],
    }
    for method, names in signatures.items():
        parameters = list(inspect.signature(getattr(PythonExecutor, method)).parameters.values())[1:]
        assert [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD] == names
    assert PythonExecutor().max_output_length == 8192
    assert PythonExecutor(100, ["json"]).allowed_imports == ["json"]


def test_max_output_length(client: assay.Client) -> None:
    with PythonExecutor(100, client=client) as e:
        r = e.execute("print('x' * 500)")
        assert r["stdout"] == "x" * 100 + "\n... (truncated, total 501 chars)"
        r = e.execute("raise ValueError('y' * 500)")
        assert r["stderr"].startswith("ValueError: " + "y" * 88 + "\n... (truncated, total ")
        assert len(r["exception"]) > 500, "the exception is whole"
        assert e.execute("print('x' * 99)")["stdout"] == "x" * 99 + "\n"


def test_allowed_imports(client: assay.Client, executor: PythonExecutor) -> None:
    assert executor.execute("import json, re, collections.abc, heapq, time")["success"]
    r = executor.execute("x = 1\nimport os")
    assert not r["success"]
    assert r["exception"].startswith("ImportError: ")
    assert "os" in r["exception"]
    assert executor.get_variable("x") is None
    with PythonExecutor(allowed_imports=["os.*"], client=client) as e:
        assert e.execute("import os.path, math")["success"]
        assert not e.execute("import json")["success"]
    with PythonExecutor(allowed_imports=["*"], client=client) as e:
        assert e.execute("import os, sys, subprocess")["success"]


def test_set_context(executor: PythonExecutor) -> None:
    executor.set_context("Hello World")
    executor.set_context("other", "document")
    assert executor.get_variable("context") == "Hello World"
    assert executor.execute("len(context), document")["stdout"] == '[11, "other"]'


@pytest.mark.parametrize(
    "value",
    [1, 2**80, 1.5, "ü'\"\n", None, True, [1, [2]], {"a": {"b": None}}, (1, (2,)), {1: 2}, {1, 2}, set(), b"\0\xff"],
    ids=repr,
)  # fmt: skip
def test_set_variable(executor: PythonExecutor, value: Any) -> None:
    executor.set_variable("x", value)
    got = executor.get_variable("x")
    assert (got, type(got)) == (value, type(value))
    assert executor.execute(f"x == {value!r}")["stdout"] == "true"


def test_set_variable_of_other_kinds(executor: PythonExecutor) -> None:
    for value in (object(), float("nan"), [object()]):
        with pytest.raises(TypeError, match="literal"):
            executor.set_variable("x", value)
    for name in ("", "a b", "1x", "x = 1; y"):
        with pytest.raises(ValueError, match="name"):
            executor.set_variable(name, 1)
    executor.set_variable("double", lambda x: 2 * x)
    assert executor.execute("double(4)")["stdout"] == "8"


def test_get_variable(executor: PythonExecutor) -> None:
    assert executor.get_variable("x") is None, "before there is a session"
    executor.execute(
        "import datetime\nx = [1, None]\nt = (1, {2})\nnone = None\nd = datetime.date(2026, 1, 2)\ndef f(): pass"
    )
    assert executor.get_variable("x") == [1, None]
    assert executor.get_variable("t") == (1, {2})
    assert executor.get_variable("none") is None
    assert executor.get_variable("d") == "datetime.date(2026, 1, 2)", "a value that is no literal is its repr"
    for missing in ("nope", "a b", "", "format_exc_"):
        assert executor.get_variable(missing) is None


def test_list_variables(executor: PythonExecutor) -> None:
    assert set(executor.list_variables()) == {"format_exc", "safe_json_dumps"}
    executor.set_variable("a", 1)
    executor.inject_function("ask", lambda: 1)
    executor.execute("b = None\n_hidden = 1\nimport math\ndef f(): pass\ng = lambda: 1")
    names = executor.list_variables()
    assert isinstance(names, list)
    assert set(names) == {"format_exc", "safe_json_dumps", "a", "ask", "b", "g"}


def test_execute(executor: PythonExecutor) -> None:
    r = executor.execute("x = 10")
    assert set(r) == FIELDS
    assert executor.execute("y = x * 2")["success"]
    assert executor.get_variable("y") == 20
    for nothing in ("", "  \n", "# nothing"):
        r = executor.execute(nothing)
        assert (r["success"], r["stdout"]) == (True, ""), nothing


def test_stdout(executor: PythonExecutor) -> None:
    assert executor.execute("print('hello world')")["stdout"] == "hello world\n"
    for code, out in (
        ("print('a')\n1 + 1", "a\n\n2"),
        ("'text'", '"text"'),
        ("(1, 'a')", '[1, "a"]'),
        ("{1: 2}", '{"1": 2}'),
        ("{1}", "{1}"),
        ("None", ""),
        ("x = 42", "42"),
        ("x += 1", "43"),
        ("y: int = 5", "5"),
        ("y: int", ""),
        ("a = b = [1]", "[1]"),
        ("a, b = 'ü', (2)", '["\\u00fc", 2]'),
        ("d = {}\nd['k'] = (1 +\n  2)  # text", "3"),
        ("d['k']", "3"),
        ("x = *a, 1", '["\\u00fc", 1]'),
        ("x = None", ""),
        ("import math", ""),
    ):
        r = executor.execute(code)
        assert (r["stdout"], r["exception"]) == (out, None), code


def test_stderr(client: assay.Client, executor: PythonExecutor) -> None:
    r = executor.execute("print('before'); raise RuntimeError('error message')")
    assert r["stderr"] == r["exception"]
    assert "error message" in r["stderr"]
    assert r["stdout"] == "before\n", "earlier output is not lost, unlike in the reference"
    with PythonExecutor(allowed_imports=["sys"], client=client) as e:
        r = e.execute("import sys\nprint('note', file=sys.stderr)\n1/0")
        assert r["stderr"].startswith("note\n")
        assert r["stderr"].count("Traceback") == 1


def test_locals_snapshot(executor: PythonExecutor) -> None:
    r = executor.execute("x = 1\ns = 'a'\n_h = 2\nlong = 'x' * 600\ndef f(): pass\ng = lambda: 1\nclass C: pass")
    assert r["locals_snapshot"] == {
        "x": "1", "s": "'a'", "long": "'" + "x" * 499 + "...", "g": r["locals_snapshot"]["g"],
        "C": "<class '__main__.C'>",
    }  # fmt: skip
    assert "<lambda>" in r["locals_snapshot"]["g"]
    assert executor.execute("x = 2\ny = 3")["locals_snapshot"] == {"y": "3"}, "new ones only"
    executor.set_variable("z", 1)
    assert executor.execute("z = 2")["locals_snapshot"] == {}


def test_execution_time(executor: PythonExecutor) -> None:
    t = executor.execute("import time; time.sleep(0.3)")["execution_time"]
    assert isinstance(t, float)
    assert 0.3 <= t < 3


def test_success_and_exception(executor: PythonExecutor) -> None:
    r = executor.execute("1")
    assert (r["success"], r["exception"]) == (True, None)
    r = executor.execute("def f():\n    raise ValueError('test error')\nx = f()")
    assert not r["success"]
    assert r["exception"].startswith("ValueError: test error\nTraceback (most recent call last):\n")
    assert "line 2" in r["exception"]
    assert "x = f()" in r["exception"], "lines are those that were sent"
    assert "d['k'] = f(1)" in executor.execute("d = {}\nd['k'] = f(1)")["exception"]
    r = executor.execute("1 +")
    assert r["exception"].startswith("SyntaxError: ")


def test_limits(client: assay.Client) -> None:
    with PythonExecutor(client=client, policy={"wall": "1s", "memory": "128Mi"}) as e:
        r = e.execute("x = 1\nwhile True: pass")
        assert not r["success"]
        assert r["exception"].startswith("TimeoutError: ")
        assert e.get_variable("x") == 1, "it lives on"
        r = e.execute("raise SystemExit(3)")
        assert r["exception"].startswith("SystemExit: ")


def test_a_session_that_ended(client: assay.Client) -> None:
    with PythonExecutor(client=client, allowed_imports=["*"]) as e:
        r = e.execute("import os; os._exit(1)")
        assert not r["success"]
        assert "ended" in r["exception"]
        with pytest.raises(assay.ConflictError, match="has ended"):
            e.execute("1")
        e.reset()
        assert e.execute("1")["stdout"] == "1"


def test_reset(executor: PythonExecutor) -> None:
    executor.set_variable("x", 10)
    executor.inject_function("f", lambda: 1)
    executor.reset()
    assert executor.get_variable("x") is None
    assert set(executor.list_variables()) == {"format_exc", "safe_json_dumps"}
    assert "NameError" in executor.execute("f()")["exception"]
    executor.inject_function("f", lambda: 2)
    assert executor.execute("f()")["stdout"] == "2"
    assert executor.execute("x = 1")["locals_snapshot"] == {"x": "1"}


def test_inject_function(executor: PythonExecutor) -> None:
    executor.inject_function("double", lambda x, *, times=2: x * times)
    executor.execute("before = 1")
    executor.inject_function("pair", lambda: (1, {2}))
    assert executor.execute("result = double(5)")["success"]
    assert executor.get_variable("result") == 10
    assert executor.execute("double('a', times=3), pair()")["stdout"].startswith("('aaa', (1, {2}))")
    executor.inject_function("double", lambda x: "other")
    assert executor.execute("double(1)")["stdout"] == '"other"'
    assert executor.get_variable("double") is None, "functions are no variables"
    with pytest.raises(TypeError):
        executor.inject_function("x", 7)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="name"):
        executor.inject_function("a b", print)


def test_exceptions_of_functions(executor: PythonExecutor) -> None:
    class Odd(Exception):
        pass

    def fail(kind: str) -> None:
        raise {"key": KeyError("k"), "odd": Odd("odd"), "exit": SystemExit(3), "interrupt": KeyboardInterrupt()}[kind]

    executor.inject_function("fail", fail)
    assert executor.execute("try: fail('key')\nexcept KeyError as e: print(e.args)")["stdout"] == "('k',)\n"
    for kind, text in (
        ("odd", "fail: Odd: odd"),
        ("exit", "fail: SystemExit: 3"),
        ("interrupt", "fail: KeyboardInterrupt"),
    ):
        assert executor.execute(f"try: fail('{kind}')\nexcept CallError as e: print(e)")["stdout"].startswith(text)
    executor.inject_function("odd", object)
    assert "literal" in executor.execute("odd()")["exception"]


def test_functions_use_variables(executor: PythonExecutor) -> None:
    """The REPL environment's own functions: FINAL_VAR and SHOW_VARS read the namespace while code waits."""
    executor.inject_function("FINAL_VAR", lambda name: f"FINAL({executor.get_variable(name)})")
    executor.inject_function("SHOW_VARS", lambda: sorted(executor.list_variables()))
    executor.inject_function("remember", lambda: executor.set_variable("kept", (1, [2])))
    executor.set_variable("answer", {"content": "", "ready": False})
    r = executor.execute(
        "list = 5; repr = 6\nx = {'a': (1, 2)}\ndef f(): pass\nprint(FINAL_VAR('x'), FINAL_VAR('nope'))"
    )
    assert r["stdout"] == "FINAL({'a': (1, 2)}) FINAL(None)\n", r
    assert executor.execute("remember(); kept")["stdout"] == "[1, [2]]"
    names = executor.execute("found = SHOW_VARS(); print(*found)")["stdout"].split()
    assert names == sorted(
        ["FINAL_VAR", "SHOW_VARS", "remember", "answer", "format_exc", "kept", "list", "repr", "safe_json_dumps", "x"]
    )
    executor.execute("large = 'x' * (5 << 20)")
    executor.inject_function("size", lambda: len(executor.get_variable("large")))
    assert executor.execute("size() >= 100_000")["stdout"] == "true"


def test_functions_at_once(client: assay.Client) -> None:
    with PythonExecutor(client=client, allowed_imports=["concurrent"]) as e:
        barrier = threading.Barrier(4)

        def meet(i: int) -> Any:
            barrier.wait(20)
            return e.get_variable("base") + i

        e.inject_function("meet", meet)
        e.set_variable("base", 10)
        code = "from concurrent.futures import ThreadPoolExecutor as Pool\n"
        code += "with Pool(4) as p: r = list(p.map(meet, range(4)))"
        assert e.execute(code)["success"]
        assert e.get_variable("r") == [10, 11, 12, 13]


def test_functions_that_the_execution_leaves_behind(client: assay.Client) -> None:
    out: list[BaseException] = []
    with PythonExecutor(client=client, policy={"wall": "1s"}) as e:

        def late() -> None:
            time.sleep(2)
            try:
                e.get_variable("x")
            except BaseException as error:
                out.append(error)
                raise

        def nested() -> Any:
            return e.execute("1")

        e.inject_function("late", late)
        e.inject_function("nested", nested)
        e.set_variable("x", 1)
        assert "TimeoutError" in e.execute("late()")["exception"]
        assert e.execute("x")["stdout"] == "1"
        time.sleep(1.5)
        assert "RuntimeError" in e.execute("nested()")["exception"]
        assert e.execute("x")["stdout"] == "1"


def test_helpers(executor: PythonExecutor) -> None:
    assert executor.execute("safe_json_dumps({'a': {1}})")["stdout"] == '"{\\"a\\": \\"{1}\\"}"'
    r = executor.execute("try: 1/0\nexcept ZeroDivisionError: print(format_exc())")
    assert "ZeroDivisionError" in r["stdout"]


def test_threads(executor: PythonExecutor) -> None:
    executor.set_variable("n", 0)
    with ThreadPoolExecutor(20) as pool:
        results = list(pool.map(lambda i: executor.execute(f"n = n + 1; {i}"), range(40)))
    assert [r["stdout"] for r in results] == [str(i) for i in range(40)]
    assert executor.get_variable("n") == 40


def test_it_goes_with_whoever_had_it(client: assay.Client) -> None:
    """An environment makes a new executor at each reset, and closes none."""
    e = PythonExecutor(client=client)
    e.inject_function("show", e.list_variables)  # which has it in turn
    assert e.execute("show()")["success"]
    assert e._session is not None
    id = e._session.id
    del e
    gc.collect()
    end = time.monotonic() + 15
    while client.api.get_session(id).state == "live":
        assert time.monotonic() < end
        time.sleep(0.1)


def test_infrastructure_is_no_result() -> None:
    with pytest.raises(assay.Unreachable):
        PythonExecutor(client=assay.Client("http://127.0.0.1:1", patience=0.1)).execute("1")


def test_code_whose_last_assignment_has_a_value() -> None:
    for code in ("1 +", "", "x: int", "for i in x: y = i", "\0"):
        assert with_value(code) == code


def test_the_table_in_the_documentation() -> None:
    """It has a row for each method and field, and each row a test that exists."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "integrations" / "interpreters.md").read_text()
    section = page.split("## The REPL executor\n")[1].split("\n## ")[0]
    rows = [line.split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    for *_, test in rows:
        assert callable(globals()[test.strip(" |`")]), test
    named = {row[0].strip(" |").strip("`").split("(")[0].split("`")[0] for row in rows}
    methods = {n for n, _ in inspect.getmembers(PythonExecutor, inspect.isfunction) if not n.startswith("_")} - {
        "close"
    }
    assert methods | FIELDS <= named
