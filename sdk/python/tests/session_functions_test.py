"""Host functions of sessions: Python of the client that a program calls."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from typing import Any

import pytest

import assay


def test_functions_before_and_after_the_start(client: assay.Client) -> None:
    def double(x: int) -> int:
        return 2 * x

    with client.session(functions=[double]) as s:
        assert s.run("double(4)").value == 8

        @s.function
        def greet(name: str, *, mark: str = "!") -> dict[str, str]:
            return {"text": f"hello {name}{mark}"}

        @s.function(name="later")
        async def asynchronous(x: Any) -> Any:
            await asyncio.sleep(0.01)
            return [x, None]

        s.function(lambda: "lambda", name="shout")
        assert s.run("greet('you', mark='?'), later({'a': 1}), shout()").repr == (
            "({'text': 'hello you?'}, [{'a': 1}, None], 'lambda')"
        )
        s.function(lambda: "other", name="shout")  # the same name, another function
        e = s.run("shout()")
        assert (e.value, e.calls) == ("other", 1)
        dropped = s.reset()
        assert dropped.functions == ["double"]
        assert s.run("double(1)").value == 2
        assert s.run("shout()").error.type == "NameError"  # type: ignore[union-attr]
    with client.session(functions={"f": double}) as s:
        assert s.run("f(1)").value == 2


def test_calls_are_answered_at_once(session: assay.Session) -> None:
    barrier = threading.Barrier(8)

    @session.function
    def meet(i: int) -> int:
        barrier.wait(20)  # nobody passes until all eight are there
        return i

    @session.function
    async def nap(i: int) -> int:
        await asyncio.sleep(0.5)
        return i

    code = "from concurrent.futures import ThreadPoolExecutor as Pool\n"
    code += "with Pool(8) as p: out = list(p.map({}, range(8)))\nout"
    assert session.run(code.format("meet")).value == list(range(8))
    began = time.monotonic()
    assert session.run(code.format("nap")).value == list(range(8))
    assert time.monotonic() - began < 4


def test_exceptions_cross_both_ways(session: assay.Session) -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    def stop() -> None:
        raise StopIteration

    def leave() -> None:
        raise SystemExit(3)

    async def cancel() -> None:
        raise asyncio.CancelledError

    async def interrupt() -> None:
        raise KeyboardInterrupt

    def fail(text: str) -> None:
        raise ValueError(text)

    def odd() -> None:
        raise Odd

    def surrogate() -> None:
        raise ValueError("\ud800")

    for f in (stop, leave, cancel, interrupt, fail, odd, surrogate):
        session.function(f)
    caught = "try: {}\nexcept CallError as e: print(e)"
    for call, text in (
        ("fail('no')", "fail: ValueError: no"),
        ("fail()", "fail: TypeError:"),
        ("stop()", "stop: StopIteration"),
        ("leave()", "leave: SystemExit: 3"),
        ("cancel()", "cancel: CancelledError"),
        ("interrupt()", "interrupt: KeyboardInterrupt"),
        ("odd()", "odd: Odd"),
        ("surrogate()", "surrogate: ValueError"),
        ("fail('x' * 100_000)", "fail: ValueError: xxx"),
    ):
        e = session.run(caught.format(call))
        assert e.stdout.startswith(text), (call, e.stdout, e.stderr)
    e = session.run("fail('not caught')")
    assert e.error is not None
    assert (e.error.type, e.error.message) == ("CallError", "fail: ValueError: not caught")


def test_values_that_json_cannot_have(session: assay.Session) -> None:
    recursive: list[Any] = []
    recursive.append(recursive)
    values = {
        "an_object": object(),
        "nan": float("nan"),
        "a_set": {1},
        "recursive": recursive,
        "large": "x" * (17 << 20),
    }
    for name, value in values.items():
        session.function(lambda value=value: value, name=name)
        e = session.run(f"{name}()")
        assert e.error is not None, name
        assert e.error.type == "CallError"
        assert "JSON" in e.error.message, e.error.message
    assert session.run("an_object(object())").error.type == "TypeError"  # type: ignore[union-attr]
    session.function(lambda: (1, 2), name="pair")
    assert session.run("pair()").value == [1, 2]


def test_slow_functions_end_with_the_execution(session: assay.Session) -> None:
    session.function(lambda: time.sleep(4), name="slow")
    assert session.run("slow()", wall=0.5).outcome == "timed_out"
    assert session.run("1").value == 1
    assert session.run("slow()").ok, "a slow one has the time that its execution has"


def test_functions_that_are_none(client: assay.Client, session: assay.Session) -> None:
    for bad in ("a b", "class", "ü", "1", ""):
        with pytest.raises(ValueError, match="functions"):
            session.function(print, name=bad)
    with pytest.raises(ValueError, match="name"):
        session.function(lambda: 1)
    with pytest.raises(TypeError, match="called"):
        session.function(7, name="seven")  # type: ignore[call-overload]
    with pytest.raises(ValueError, match=r"policy\.callbacks\.allow"):
        client.session(policy={"callbacks": {"allow": ["other"]}}, functions={"f": print})
    with pytest.raises(ValueError, match="python sessions"):
        client.session(kind="shell", functions={"f": print})
    with pytest.raises(ValueError, match="100"):
        client.session(functions={f"f{i}": print for i in range(101)})
    with client.session(policy={"callbacks": {"allow": ["f"], "max_calls": 1}}, functions={"f": abs}) as s:
        assert s.run("f(-1)").value == 1
        assert "max_calls" in s.run("f(-1)").error.message  # type: ignore[union-attr]


def test_a_function_cannot_wait_for_itself(session: assay.Session) -> None:
    @session.function
    def inner() -> Any:
        return session.get("x")

    @session.function
    async def outer() -> Any:
        return session.run("1").value

    for f in ("inner", "outer"):
        e = session.run(f"x = 1\n{f}()")
        assert e.error is not None
        assert "cannot be used until" in e.error.message


variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


def test_functions_have_the_context_of_whoever_runs(session: assay.Session) -> None:
    session.function(lambda: variable.get(), name="which")
    token = variable.set("mine")
    assert session.run("which()").value == "mine"
    variable.reset(token)
    assert session.run("which()").value == "none"
