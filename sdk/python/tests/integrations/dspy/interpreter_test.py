"""AssayInterpreter by itself: the code's environment, results, and errors."""

from __future__ import annotations

import asyncio
import concurrent.futures
import dataclasses
import datetime
import threading
from collections.abc import Iterator
from typing import Any

import dspy
import pydantic
import pytest
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.utils.callback import BaseCallback

import assay
from assay.integrations.dspy import AssayInterpreter


@pytest.fixture
def interpreter(client: assay.Client) -> Iterator[AssayInterpreter]:
    with AssayInterpreter(client=client) as i:
        yield i


def test_protocol(client: assay.Client) -> None:
    assert isinstance(AssayInterpreter(client=client), dspy.CodeInterpreter)


def test_start_and_shutdown(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    assert i.session_id is None
    i.start()
    i.start()
    assert i.session_id is not None
    session = i.session_id
    i.shutdown()
    i.shutdown()
    assert client.api.get_session(session).state == "ended"
    with pytest.raises(CodeInterpreterError, match="closed") as e:
        i.execute("1")
    assert not isinstance(e.value, CodeExecutionError)
    with pytest.raises(CodeInterpreterError, match="closed"):
        i.start()


def test_starts_when_needed(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    assert i("1 + 1") == 2
    i.shutdown()
    never = AssayInterpreter(client=client)
    never.shutdown()
    assert never.session_id is None


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("print('a'); print('b')", "a\nb"),
        ("6 * 7", 42),
        ("print('lost'); [1, 'two', {'three': None}]", [1, "two", {"three": None}]),
        ("'text'", "text"),
        ("x = 1", None),
        ("", None),
        ("{1, 2}", "{1, 2}"),
        ("import sys; sys.stderr.write('e\\n'); None", "e"),
        ("'x' * 200_000", "x" * 200_000),
        ("False", False),
        ("None", None),
    ],
)
def test_results(interpreter: AssayInterpreter, code: str, result: Any) -> None:
    assert interpreter.execute(code) == result


def test_state(interpreter: AssayInterpreter) -> None:
    interpreter.execute("import math\ndef f(x): return x + 1\nopen('a.txt', 'w').write('kept')")
    with pytest.raises(CodeExecutionError):
        interpreter.execute("y = f(2)\n1 / 0")
    assert interpreter.execute("[y, math.floor(2.5), open('a.txt').read()]") == [3, 2, "kept"]


def test_errors(interpreter: AssayInterpreter) -> None:
    with pytest.raises(CodeExecutionError, match=r"^ZeroDivisionError: division by zero \(line 2: y = 1 / 0\)$"):
        interpreter.execute("x = 1\ny = 1 / 0")
    with pytest.raises(SyntaxError, match=r"line 2: if"):
        interpreter.execute("x = 1\nif")
    with pytest.raises(SyntaxError):
        interpreter.execute("x = 1\n  y = 2")
    with pytest.raises(CodeExecutionError, match="exit code 3"):
        interpreter.execute("import sys; sys.exit(3)")
    with pytest.raises(CodeExecutionError, match=r"too large"):
        interpreter.execute("#" * (33 << 20) + "\n1")
    assert interpreter.execute("x") == 1


def test_limits(client: assay.Client) -> None:
    with AssayInterpreter(client=client, policy={"wall": "1s", "imports": {"deny": ["socket"]}}) as i:
        i.execute("x = 1")
        with pytest.raises(CodeExecutionError, match="limit of 1s"):
            i.execute("while True: pass")
        with pytest.raises(CodeExecutionError, match=r"imports.*socket"):
            i.execute("import socket")
        assert i.execute("x") == 1


def test_imports_may_be_denied(client: assay.Client) -> None:
    """The adapter's own code in the session needs no imports."""
    with AssayInterpreter({"f": len}, client=client, policy={"imports": {"deny": ["*"]}}) as i:
        assert i.execute("SUBMIT({'n': f(context)})", {"context": "x" * 3_000_000}) == FinalOutput(
            {"output": {"n": 3_000_000}}
        )


# SUBMIT


def test_submit(interpreter: AssayInterpreter) -> None:
    assert interpreter.execute("print('x')\nSUBMIT({'a': (1, 2)})\nnever") == FinalOutput({"output": {"a": [1, 2]}})
    assert interpreter.execute("SUBMIT(output='text')") == FinalOutput({"output": "text"})
    assert interpreter.execute("try:\n    SUBMIT(1)\nexcept Exception:\n    pass") == FinalOutput({"output": 1})


def test_submit_fields(interpreter: AssayInterpreter) -> None:
    interpreter.output_fields = [{"name": "answer", "type": "str"}, {"name": "n", "type": "int"}, {"name": "other"}]
    submitted = FinalOutput({"answer": "a", "n": 1, "other": None})
    assert interpreter.execute("SUBMIT('a', 1, None)") == submitted
    assert interpreter.execute("SUBMIT(other=None, n=1, answer='a')") == submitted
    with pytest.raises(CodeExecutionError, match=r"TypeError.*missing 2 required"):
        interpreter.execute("SUBMIT('a')")
    assert interpreter.execute("import inspect; str(inspect.signature(SUBMIT))") == "(answer: str, n: int, other)"
    interpreter.output_fields = [{"name": "done", "type": "NoneType"}]
    assert interpreter.execute("SUBMIT(done=None)") == FinalOutput({"done": None})
    interpreter.output_fields = [{"name": "not a name"}]
    with pytest.raises(CodeInterpreterError, match="output_fields: 'not a name'"):
        interpreter.execute("1")


def test_submit_values(interpreter: AssayInterpreter) -> None:
    code = (
        "import numpy, dataclasses, datetime\n@dataclasses.dataclass\nclass D:\n    x: int\n"
        "SUBMIT([numpy.int64(1), numpy.array([2.5]), {3, 1}, D(4), datetime.date(2026, 1, 2), {5: True}])"
    )
    assert interpreter.execute(code) == FinalOutput({"output": [1, [2.5], [1, 3], {"x": 4}, "2026-01-02", {"5": True}]})
    result = interpreter.execute("SUBMIT(float('inf'))")
    assert result == FinalOutput({"output": float("inf")})
    big = interpreter.execute("SUBMIT('é' * 1_000_000)")
    assert big == FinalOutput({"output": "é" * 1_000_000})
    with pytest.raises(CodeExecutionError, match="there is no JSON of object"):
        interpreter.execute("SUBMIT(object())")
    with pytest.raises(CodeExecutionError, match="larger than 16 MiB"):
        interpreter.execute("SUBMIT('x' * (17 << 20))")
    with pytest.raises(CodeExecutionError):
        interpreter.execute("class _AssaySubmitted(BaseException): pass\n_assay_submitted = 3\nraise _AssaySubmitted()")
    assert interpreter.execute("1") == 1


# Variables


class Color(pydantic.BaseModel):
    name: str
    parts: tuple[int, ...]


def test_variables(interpreter: AssayInterpreter) -> None:
    given = {
        "text": "x\n'\"\\", "number": 10**30, "real": 0.1, "yes": True, "nothing": None,
        "nested": {"a": [1, {"b": ()}]},
        "model": Color(name="red", parts=(1, 2)), "several": {3, 1, 2}, "day": datetime.date(2026, 1, 2),
        "infinite": float("inf"), "zero": "a\0b", "half": "\ud800",
    }  # fmt: skip
    code = "[text, number, real, yes, nothing, nested, model, several, day, infinite > 1, zero == 'a\\0b', ord(half)]"
    assert interpreter.execute(code, given) == [
        "x\n'\"\\", 10**30, 0.1, True, None, {"a": [1, {"b": []}]},
        {"name": "red", "parts": [1, 2]}, [1, 2, 3], "2026-01-02", True, True, 0xD800,
    ]  # fmt: skip
    assert interpreter.execute("number + 1") == 10**30 + 1


def test_variables_are_set_each_time(interpreter: AssayInterpreter) -> None:
    for given in ({"x": [1]}, {"x": ["y" * 300_000]}):
        assert interpreter.execute("x.append(2); len(x)", given) == 2
        assert interpreter.execute("x.append(2); len(x)", given) == 2


def test_large_variables_are_sent_once(client: assay.Client) -> None:
    context = "0123456789" * 2_500_000 + "é"
    records = [{"id": i, "text": "x" * 1000} for i in range(5000)]
    given = {"context": context, "records": records, "small": 1}
    with AssayInterpreter(client=client, policy={"memory": "1Gi"}) as i:
        assert i.execute("[len(context), context[-1], len(records), small]", given) == [25_000_001, "é", 5000, 1]
        assert i.execute("context = None; records.clear()", given) is None
        assert i.execute("[len(context), len(records)]", given) == [25_000_001, 5000]
        sent = len(client.api.list_executions(i.session_id or "").executions)
        assert i.execute("len(context)", given) == 25_000_001
        assert len(client.api.list_executions(i.session_id or "").executions) == sent + 2
        assert i.execute("[len(context), '_assay_piece_0' in globals()]", {"context": "y" * 300_000}) == [
            300_000,
            False,
        ]


@pytest.mark.parametrize("name", ["not a name", "if", "SUBMIT", "_assay_x", "é", "f", 1, "__builtins__"])
def test_variables_names(interpreter: AssayInterpreter, name: Any) -> None:
    interpreter.tools["f"] = lambda: 1
    with pytest.raises(CodeInterpreterError, match="Invalid variable name") as e:
        interpreter.execute("1", {name: 1})
    assert not isinstance(e.value, CodeExecutionError)
    assert interpreter.execute("1") == 1


def test_variables_that_cannot_be_sent(interpreter: AssayInterpreter) -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(CodeInterpreterError, match="x: Unsupported value type: object"):
        interpreter.execute("1", {"x": [object()]})
    with pytest.raises(CodeInterpreterError, match="contains itself"):
        interpreter.execute("1", {"x": circle})
    with pytest.raises(CodeInterpreterError, match="must be a dict"):
        interpreter.execute("1", "x=1")  # type: ignore[arg-type]
    assert interpreter.execute("1") == 1


# Tools


@dataclasses.dataclass
class Point:
    x: int
    y: float


def add(a: int, b: int = 10) -> int:
    return a + b


async def slow(text: str) -> str:
    await asyncio.sleep(0.01)
    return text.upper()


def test_tools(client: assay.Client) -> None:
    only_names = dspy.Tool(add, name="only_names")
    tools = {"add": add, "slow": slow, "only_names": only_names, "nothing": lambda: None, "place": lambda x, /: x}
    with AssayInterpreter(tools, client=client) as i:
        assert i.tools == tools
        code = "[add(1), add(1, 2), add(b=1, a=5), slow('x'), only_names(2, 3), nothing(), place([1, {'a': None}])]"
        assert i.execute(code) == [11, 3, 6, "X", 5, None, [1, {"a": None}]]
        with pytest.raises(CodeExecutionError, match=r"TypeError.*missing 1 required.*'a'"):
            i.execute("add()")
        with pytest.raises(CodeExecutionError, match="cannot be sent"):
            i.execute("add(object())")


@pytest.mark.parametrize(
    ("given", "arrives"),
    [
        (Color(name="red", parts=(1,)), {"name": "red", "parts": [1]}),
        (Point(1, 2.5), {"x": 1, "y": 2.5}),
        ([datetime.date(2026, 1, 2), {1}, (2, 3)], ["2026-01-02", [1], [2, 3]]),
        ({1: None}, {"1": None}),
        ("", ""),
        (float("nan"), "nan"),
        (ValueError("x"), "x"),
    ],
)
def test_tools_results(interpreter: AssayInterpreter, given: Any, arrives: Any) -> None:
    interpreter.tools["get"] = lambda: given
    assert interpreter.execute("get()") == arrives


def test_tools_that_come_and_go(interpreter: AssayInterpreter) -> None:
    interpreter.execute("1")
    interpreter.tools["__dspy_construct__"] = lambda: "first"
    assert interpreter.execute("globals()['__dspy_construct__']()") == "first"
    interpreter.tools["__dspy_construct__"] = lambda: "second"
    assert interpreter.execute("globals()['__dspy_construct__']()") == "second"
    del interpreter.tools["__dspy_construct__"]
    with pytest.raises(CodeExecutionError, match="Unknown tool"):
        interpreter.execute("globals()['__dspy_construct__']()")
    interpreter.tools["not a name"] = add
    with pytest.raises(CodeInterpreterError, match="Invalid tool name: 'not a name'"):
        interpreter.execute("1")


def test_tools_that_the_policy_does_not_allow(client: assay.Client) -> None:
    policy = {"callbacks": {"allow": ["add"], "max_calls": 2}}
    with AssayInterpreter({"add": add}, client=client, policy=policy) as i:
        assert i.execute("add(1) + add(2)") == 23
        with pytest.raises(CodeExecutionError, match="CallError"):
            i.execute("add(3)")
        i.tools["other"] = add
        with pytest.raises(CodeInterpreterError, match=r"callbacks\.allow does not have 'other'"):
            i.execute("1")


def test_wrong_types(interpreter: AssayInterpreter) -> None:
    with pytest.raises(CodeInterpreterError, match="code: must be a str, not int"):
        interpreter.execute(3)  # type: ignore[arg-type]


def test_tools_that_raise(interpreter: AssayInterpreter) -> None:
    def broken(x: int) -> None:
        raise KeyError(f"no {x}")

    interpreter.tools["broken"] = broken
    with pytest.raises(CodeExecutionError, match=r"CallError: broken: .*KeyError.*no 3"):
        interpreter.execute("broken(3)")
    assert (
        interpreter.execute("try:\n    broken(1)\nexcept Exception as e:\n    r = type(e).__name__\nr") == "CallError"
    )


def test_tools_at_once(interpreter: AssayInterpreter) -> None:
    """Eight calls wait for each other: they would wait for ever one after another."""
    barrier = threading.Barrier(8)

    def meet(x: int) -> int:
        barrier.wait(30)
        return x * 2

    interpreter.tools["meet"] = meet
    code = "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as t: r = list(t.map(meet, range(8)))\nr"
    assert interpreter.execute(code) == [0, 2, 4, 6, 8, 10, 12, 14]


def test_tools_have_the_settings_of_who_executes(interpreter: AssayInterpreter) -> None:
    interpreter.tools["level"] = lambda: dspy.settings.get("level")
    with dspy.context(level="inner"):
        assert interpreter.execute("level()") == "inner"
    assert interpreter.execute("level()") is None


def test_tools_do_not_execute(interpreter: AssayInterpreter) -> None:
    interpreter.tools["again"] = lambda: interpreter.execute("1")
    with pytest.raises(CodeExecutionError, match="already executes"):
        interpreter.execute("again()")
    assert interpreter.execute("2") == 2


def test_tools_that_are_cancelled(interpreter: AssayInterpreter) -> None:
    def cancel() -> None:
        raise KeyboardInterrupt("now")

    interpreter.tools["cancel"] = cancel
    with pytest.raises(KeyboardInterrupt, match="now"):
        interpreter.execute("try:\n    cancel()\nexcept Exception:\n    pass")
    assert interpreter.execute("1") == 1


def test_callbacks(client: assay.Client) -> None:
    seen: list[str] = []

    class Recorder(BaseCallback):
        def on_interpreter_startup_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            seen.append("startup")

        def on_interpreter_execute_start(self, call_id: str, instance: Any, inputs: dict[str, Any]) -> None:
            seen.append(f"execute {inputs['code']}")

        def on_interpreter_tool_call_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
            seen.append(f"tool {outputs}")

        def on_interpreter_shutdown_end(self, call_id: str, outputs: Any, exception: Any = None) -> None:
            seen.append("shutdown")

    with AssayInterpreter({"add": add}, client=client, callbacks=[Recorder()]) as i:
        i.execute("add(1)")
    assert seen == ["startup", "execute add(1)", "tool 11", "shutdown"]


def test_many_from_threads(client: assay.Client) -> None:
    """Twenty at once, each with a tool of its own."""

    def one(n: int) -> Any:
        with AssayInterpreter({"mine": lambda: n}, client=client, policy={"memory": "64Mi"}) as i:
            i.execute("x = mine()")
            return i.execute("SUBMIT([x, mine()])")

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        results = list(pool.map(one, range(20)))
    assert results == [FinalOutput({"output": [n, n]}) for n in range(20)]
