"""Sessions on a real fleet: what they do, and what they do with bad input."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import pickle
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import assay
from fleet import start_fleet, stop_fleet
from process_test import python


@pytest.fixture
def session(client: assay.Client) -> Iterator[assay.Session]:
    with client.session(lease=30) as s:
        yield s


def live(client: assay.Client, id: str) -> bool:
    return client.api.get_session(id).state == "live"


def ended(client: assay.Client, id: str, within: float = 15) -> str:
    """How a session ended, in words."""
    end = time.monotonic() + within
    while live(client, id):
        assert time.monotonic() < end, "it lives"
        time.sleep(0.1)
    return client.api.get_session(id).message or ""


# Executions


def test_state_stays(session: assay.Session) -> None:
    assert session.run("import math\nx = 20").ok
    e = session.run("print('out'); x + 1")
    assert (e.value, e.repr, e.stdout, e.outcome, e.ok, e.alive) == (21, "21", "out\n", "succeeded", True, True)
    assert e.error is None
    assert e.check() is e
    assert 0 <= e.duration < 10
    assert session.run("None").value is None
    assert session.run("y = 1").repr == ""
    assert session.run("{1}").value == "{1}", "what JSON has no form for is its repr"
    assert session.run("a = b + 0", variables={"b": 2}).variables["a"].repr == "2"
    assert [x.id for x in client_list(session)][1] == e.id


def client_list(session: assay.Session) -> list[Any]:
    api = assay.Client(session._transport.config.url).api
    return api.list_executions(session.id).executions


def test_exceptions_are_data(session: assay.Session) -> None:
    e = session.run("def f():\n    raise ValueError('no')\nf()")
    assert (e.outcome, e.ok, e.alive, e.infra) == ("exception", False, True, False)
    assert e.error is not None
    assert (e.error.type, e.error.message, e.error.line) == ("ValueError", "no", 2)
    assert "line 2" in e.error.traceback
    with pytest.raises(assay.ProgramError, match="ValueError: no") as raised:
        e.check()
    assert raised.value.result is e
    assert pickle.loads(pickle.dumps(e)).summary == e.summary
    assert session.run("import sys; sys.exit(3)").exit_code == 3
    assert session.run("1 +").error.type == "SyntaxError"  # type: ignore[union-attr]


def test_tables(client: assay.Client, session: assay.Session) -> None:
    code = """
class Frame:
    columns, values = ["a", "b"], None
    def to_records(self): pass
    def head(self, n): return self
    def __len__(self): return 7
import types
Frame.values = types.SimpleNamespace(tolist=lambda: [[1, 2]])
Frame()
"""
    [table] = session.run(code).tables
    assert (table.columns, table.rows, table.total) == (["a", "b"], [["1", "2"]], 7)
    png = "import sys, types, base64\nimport io\n"
    png += "m = types.ModuleType('matplotlib.pyplot'); m.get_fignums = lambda: [1]; m.close = lambda x: None\n"
    png += "m.figure = lambda n: types.SimpleNamespace(savefig=lambda f, format: f.write(b'\\x89PNG'))\n"
    assert session.run(png + "sys.modules['matplotlib.pyplot'] = m; None").images == [b"\x89PNG"]


def test_wall_and_timeout(session: assay.Session) -> None:
    e = session.run("import time; time.sleep(20)", wall=0.5)
    assert (e.outcome, e.alive) == ("timed_out", True)
    began = time.monotonic()
    with pytest.raises(assay.Timeout):
        session.run("time.sleep(9)", timeout=0.5)
    assert session.run("1 + 1").value == 2, "it lives, and was interrupted"
    assert time.monotonic() - began < 8
    for bad in ("soon", -1):
        with pytest.raises((ValueError, assay.InvalidError)):
            session.run("1", wall=bad)


def test_interrupt(session: assay.Session) -> None:
    timer = threading.Timer(1, session.interrupt)
    timer.start()
    e = session.run("x = 1\nimport time; time.sleep(9)")
    assert (e.outcome, e.infra) == ("canceled", True)
    with pytest.raises(assay.InfraError):
        e.check()
    assert session.get("x") == 1
    session.interrupt()  # of nothing


def test_output_of_17_mib(client: assay.Client) -> None:
    with client.session(policy={"stdout": {"limit": "16Mi"}, "memory": "1Gi", "wall": "60s"}) as s:
        e = s.run("print('x' * (16 << 20), end='')")
        assert len(e.stdout) == 16 << 20
        e = s.run("print('x' * (17 << 20))")
        assert e.record.stdout.truncated
        assert 15 << 20 < len(e.stdout) < 17 << 20
        for code in ("print('ü' * (8 << 20))", "print('\\0' * (15 << 20))"):
            e = s.run(code)
            assert e.ok, e
            assert e.record.stdout.truncated
            assert "bytes cut" in e.stdout or "left out" in e.stdout
            assert len(e.stdout) > 2_500_000
        e = s.run("import sys; print('x' * (15 << 20)); print('y' * 50_000, file=sys.stderr); 1")
        assert (len(e.stdout), len(e.stderr), e.record.stdout.truncated) == ((15 << 20) + 1, 50_001, False)
        assert s.run("1").value == 1


# Variables


def test_variables_are_a_mapping(session: assay.Session) -> None:
    v = session.variables
    v["x"] = {"a": [1, None, "ü"], "n": 2**70}
    assert v["x"] == {"a": [1, None, "ü"], "n": 2**70}
    assert "x" in v
    assert list(v) == ["x"]
    assert len(v) == 1
    v.update(y=1, z=None)
    assert v["z"] is None
    assert v.get("nope", 5) == 5
    assert v.setdefault("w", 3) == 3
    assert v.pop("y") == 1
    del v["w"]
    assert dict(v) == {"x": {"a": [1, None, "ü"], "n": 2**70}, "z": None}
    for missing in ("nope", "a b", "", "x/y"):
        assert missing not in v
        with pytest.raises(KeyError):
            v[missing]
    assert 7 not in v
    with pytest.raises(KeyError):
        del v["nope"]
    session.set_context("text")
    assert session.run("context.upper()").value == "TEXT"
    assert session.names()["x"].type == "dict"
    session.run("t = (1, 2)")
    assert v["t"] == "(1, 2)"


def test_wrong_names_and_values(session: assay.Session) -> None:
    for name in ("", "a b", "1x", "a/b", "ü", "../x", None, 7):
        with pytest.raises(ValueError, match="name"):
            session.set(name, 1)  # type: ignore[arg-type]
    with pytest.raises(assay.NotFoundError):
        session.get("nope")
    with pytest.raises(assay.InvalidError, match="variables"):
        session.run("1", variables={"a b": 1})
    for value in (float("nan"), object(), {1, 2}, b"bytes"):
        with pytest.raises((TypeError, ValueError)):
            session.set("x", value)
    with pytest.raises(assay.TooLargeError):
        session.set("x", "x" * (17 << 20))
    session.run("big = 'x' * (17 << 20)")
    with pytest.raises(assay.TooLargeError):
        session.get("big")
    assert "big" in session.variables
    with pytest.raises(assay.InvalidError):
        session.run("")


# Host functions


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


# Its life


def test_a_session_that_ended_says_why(client: assay.Client) -> None:
    s = client.session().start()
    assert s.start() is s
    s.close()
    assert s.close() is None
    for use in (
        lambda: s.run("1"), lambda: s.get("x"), lambda: s.set("x", 1), s.names, s.reset, s.fork, s.keep,
        lambda: s.shell("true"), lambda: s.read_file("/tmp/x"), lambda: s.write_file("/tmp/x", "x"),
        lambda: s.variables["x"],
    ):  # fmt: skip
        with pytest.raises(assay.ConflictError, match="closed by its client"):
            use()
    assert s.info().state == "ended"
    with client.session(policy={"memory": "64Mi"}) as s:
        e = s.run("x = bytearray(1 << 30)")
        if e.alive:  # it was refused as MemoryError
            e = s.run("import os; os._exit(1)")
        assert not e.alive
        assert "ended" in e.message
        with pytest.raises(assay.ConflictError, match="has ended"):
            s.run("1")


def test_before_its_start(client: assay.Client) -> None:
    s = client.session()
    with pytest.raises(RuntimeError, match="start"):
        s.run("1")
    assert s.close() is None
    with pytest.raises(assay.InvalidError, match="wall"):
        client.session(policy={"wall": "soon"}).start()
    with pytest.raises(assay.NotFoundError):
        client.attach("01a21b3e-0000-7000-8000-000000000000").start()
    with pytest.raises(ValueError, match="duration"):
        client.session(lease="soon")
    for field in ("lease", "idle_timeout"):
        with pytest.raises(ValueError, match=field):
            client.session(**{field: 0})  # type: ignore[arg-type]


def test_idle_timeout(client: assay.Client) -> None:
    s = client.session(idle_timeout=1, lease=30).start()
    assert "nobody used it" in ended(client, s.id)
    with pytest.raises(assay.ConflictError, match="nobody used it for 1s"):
        s.run("1")
    s.close()


def test_lease_is_kept_while_the_client_lives(client: assay.Client, url: str) -> None:
    with client.session(lease=2) as s, client.session(lease=2, functions={"f": abs}) as t:
        time.sleep(5)
        assert s.run("1").value == 1
        assert t.run("f(-2)").value == 2
        s.detach()
        assert "no sign" in ended(client, s.id)
    code = "s = assay.Client(url).session(lease=2, functions=[abs]).start(); print(s.id, flush=True)\n"
    code += "os.kill(os.getpid(), 9)"
    assert "no sign" in ended(client, python(url, code).stdout.split()[0])


def test_a_session_that_nobody_has_ends(client: assay.Client) -> None:
    s = client.session(lease=60).start()
    id = s.id
    del s
    gc.collect()
    assert "closed" in ended(client, id)


def test_client_that_is_closed(url: str, client: assay.Client) -> None:
    with assay.Client(url) as c:
        mine, stays = c.session().start(), c.session(lease=None, functions=[abs]).start()
        assert stays.run("abs(-1)").value == 1
    assert "closed" in ended(client, mine.id)
    assert live(client, stays.id)
    with client.attach(stays.id) as s:
        s.function(lambda x: x + 1, name="more")
        assert "no function of this name" in s.run("more(1), abs(-3)").stderr
        s.function(abs)
        assert s.run("more(1), abs(-3)").repr == "(2, 3)"
    assert live(client, stays.id), "whoever attached it did not end it"
    assert client.attach(stays.id).close().outcome == "succeeded"  # type: ignore[union-attr]


def test_close_while_a_call_is_answered(client: assay.Client) -> None:
    called, go = threading.Event(), threading.Event()

    def wait() -> str:
        called.set()
        go.wait(20)
        return "late"

    s = client.session(functions=[wait]).start()
    out: list[assay.Execution] = []
    t = threading.Thread(target=lambda: out.append(s.run("wait()")))
    t.start()
    assert called.wait(20)
    s.close()
    t.join(20)
    assert not t.is_alive()
    assert not out[0].alive
    assert "closed by its client" in out[0].message
    go.set()


def test_fork(client: assay.Client, session: assay.Session) -> None:
    session.function(lambda x: x + 1, name="more")
    session.run("x = 1")
    with session.fork() as copy:
        assert copy.id != session.id
        assert copy.run("x += more(x); x").value == 3
        assert session.get("x") == 1
        copy.function(lambda: "copy", name="whose")
        assert copy.run("whose()").value == "copy"
        with copy.fork() as third:
            assert third.run("whose(), x").repr == "('copy', 3)"
    assert not live(client, copy.id)
    assert session.run("x").value == 1


def test_reset(session: assay.Session) -> None:
    session.run("x = 1")
    session.shell("cd /tmp")
    assert session.reset().dropped == ["x"]
    assert "x" not in session.variables
    assert session.shell("pwd").stdout != "/tmp\n"


# Files and the shell


def test_files(session: assay.Session) -> None:
    data = bytes(range(256)) * 1000
    session.write_file("/workspace/a/b c.bin", data)
    assert session.read_file("/workspace/a/b c.bin") == data
    assert session.read_file("/workspace/a/b c.bin", offset=1, length=3) == b"\1\2\3"
    assert session.read_file("/workspace/a/b c.bin", offset=255_999) == b"\xff"
    assert session.read_file("/workspace/a/b c.bin", offset=256_000) == b""
    session.write_file("/workspace/ü.txt", "ü")
    assert session.run("open('/workspace/ü.txt').read()").value == "ü"
    session.run("open('/workspace/big', 'wb').truncate(70 << 20)")
    with pytest.raises(assay.AnswerTooLarge):
        session.read_file("/workspace/big")
    assert len(session.read_file("/workspace/big", length=69 << 20)) == 69 << 20
    with pytest.raises(assay.NotFoundError):
        session.read_file("/workspace/nope")
    for bad in ("relative", "", 7):
        with pytest.raises(ValueError, match="absolute"):
            session.read_file(bad)  # type: ignore[arg-type]
    for bad in (7, None, ["x"]):
        with pytest.raises(TypeError, match="data"):
            session.write_file("/tmp/x", bad)  # type: ignore[arg-type]
    with pytest.raises(assay.TooLargeError):
        session.write_file("/workspace/x", b"x" * (17 << 20))
    with pytest.raises(assay.InvalidError):
        session.write_file("/proc/x", b"x")


def test_artifacts(client: assay.Client) -> None:
    with client.session(policy={"artifacts": {"paths": ["/workspace/out/**"]}}) as s:
        s.write_file("/workspace/out/a.txt", "one")
        assert [a.path for a in s.export_artifacts().artifacts] == ["/workspace/out/a.txt"]
        s.write_file("/workspace/out/b.txt", "two")
    assert sorted(a.path for a in s.artifacts().artifacts) == ["/workspace/out/a.txt", "/workspace/out/b.txt"]
    assert s.read_artifact("/workspace/out/b.txt") == b"two"
    with client.session() as s, pytest.raises(assay.InvalidError, match="artifacts"):
        s.export_artifacts()


def test_shell(session: assay.Session) -> None:
    assert session.shell("cd /tmp; A=1; f() { echo f$A; }").exit_code == 0
    assert session.shell("f; pwd").stdout == "f1\n/tmp\n"
    e = session.shell("echo err >&2; exit 7")
    assert (e.exit_code, e.stderr, e.outcome) == (7, "err\n", "failed")
    odd = 'it\'s "$HOME" `x` \\ ü\n'
    assert session.shell(["printf", "%s", odd]).stdout == odd
    assert session.shell("cat; echo $B; pwd", stdin=odd, cwd="/workspace", env={"B": odd.strip()}).stdout == (
        odd + odd.strip() + "\n/workspace\n"
    )
    assert session.shell("echo $B; pwd").stdout == "\n/tmp\n", "what is one command's is not the next one's"
    for size in (10, 40_000, 1_000_000):
        assert session.shell("wc -c", stdin="x" * size).stdout.strip() == str(size)
    assert session.shell("od -An -tx1", stdin=b"\0\xff").stdout.split() == ["00", "ff"]
    assert session.shell("cat", stdin="").stdout == ""
    assert session.shell("cat").stdout == ""
    assert session.shell("exit 3", stdin=b"\0").exit_code == 3
    assert session.shell("echo )", cwd="/tmp").exit_code != 0, "a script that is broken is broken alone"
    assert session.shell("pwd", cwd="/nope").exit_code != 0
    assert session.shell(f"C={'x' * 200_000}; exit 4").exit_code == 4
    assert session.shell("f 2>&1; ls -A /tmp").stdout == "f1\n", "nothing is left behind"
    assert session.run("import subprocess").ok
    for bad in ("", " ", [], b"ls", [1], "a\0b", 7):
        with pytest.raises((ValueError, TypeError), match="command"):
            session.shell(bad)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="env"):
        session.shell("true", env={"a b": "1"})
    for field, value in (("env", {"A": 1}), ("env", ["A=1"]), ("cwd", 7), ("stdin", 7)):
        with pytest.raises(TypeError, match=field):
            session.shell("true", **{field: value})  # type: ignore[arg-type]


def test_kind_of_shell(client: assay.Client) -> None:
    with client.session(kind="shell") as s:
        s.run("cd /tmp; x=1")
        assert s.run("echo $x; pwd").stdout == "1\n/tmp\n"
        assert s.shell("cat", stdin="in").stdout == "in"
        with pytest.raises(assay.InvalidError, match="variables"):
            s.run("1", variables={"x": 1})


# Threads, processes, loops


def test_100_threads_use_one_session(session: assay.Session) -> None:
    session.function(lambda i: i, name="echo")
    session.run("n = 0")
    failed: list[BaseException] = []

    def use(i: int) -> None:
        try:
            assert session.run(f"n += 1; echo({i})").value == i
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not failed
    assert session.get("n") == 100


def test_ctrl_c_interrupts_the_execution(client: assay.Client, url: str) -> None:
    code = """
s = assay.Client(url).session(lease=None).start()
print(s.id, flush=True)
try:
    s.run("x = 1\\nimport time; time.sleep(25)", wall=30)
except KeyboardInterrupt:
    print(s.run("x + 1").value)
"""
    began = time.monotonic()
    done = python(url, code.replace("lease=None", "lease=None, policy={'wall': '30s'}"), interrupt=True, timeout=30)
    assert done.stdout.split()[1:] == ["2"], done.stderr
    assert time.monotonic() - began < 20
    with client.attach(done.stdout.split()[0]) as s:
        assert s.get("x") == 1
        s.close()


def test_process_ends_with_a_session(client: assay.Client, url: str) -> None:
    """Functions that hang, and sessions that are open, keep no process from its end."""
    code = """
s = assay.Client(url).session(lease=2, functions={"hang": lambda: time.sleep(60)}).start()
print(s.id, flush=True)
threading.Thread(target=lambda: s.run("hang()"), daemon=True).start()
time.sleep(1)
"""
    began = time.monotonic()
    done = python(url, code, timeout=30)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 15
    ended(client, done.stdout.split()[0])


FORK = """
c = assay.Client(url)
s = c.session(functions={"whose": os.getpid}).start()
parent = os.getpid()
assert s.run("whose()").value == parent
s.run("x = 1")
pid = os.fork()
if pid == 0:
    assert s.run("x + 1").value == 2
    assert s.run("whose()").value == parent      # who started it answers
    t = c.session(functions={"whose": os.getpid}).start()
    assert t.run("whose()").value == os.getpid()
    t.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert s.run("whose() == %d" % parent).value is True
s.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_os_fork(url: str) -> None:
    done = python(url, FORK)
    assert done.returncode == 0, done.stderr


CLOSED_LOOP = """
c = assay.AsyncClient(url)
async def begin():
    s = await c.session(functions={"f": abs}, lease=5).start()
    assert (await s.run("f(-1)")).value == 1
    return s
loop = asyncio.new_event_loop()
s = loop.run_until_complete(begin())
loop.close()                               # with the stream of calls open
async def go_on():
    assert (await s.run("f(-2)")).value == 2
    await asyncio.sleep(7)
    assert (await s.run("f(-3)")).value == 3
    return await s.close()
assert asyncio.run(go_on()).outcome == "succeeded"
"""


def test_closed_loop(url: str) -> None:
    done = python(url, CLOSED_LOOP)
    assert done.returncode == 0, done.stderr


def test_asyncio(url: str) -> None:
    async def main() -> None:
        async with assay.AsyncClient(url) as c, c.session() as s:

            @s.function
            async def ask(q: str) -> str:
                await asyncio.sleep(0.01)
                return q.upper()

            @s.function
            def block(q: str) -> str:
                time.sleep(0.01)
                return q

            assert (await s.run("ask('a') + block('b')")).value == "Ab"
            values = await asyncio.gather(*(s.run(f"{i}") for i in range(20)))
            assert [e.value for e in values] == list(range(20))
            await s.set("x", 1)
            assert await s.get("x") == 1
            assert list(await s.names()) == ["x"]
            async with await s.fork() as copy:
                assert (await copy.run("x")).value == 1
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(s.run("import time; time.sleep(9)"), 0.5)
            assert (await s.run("x + 1")).value == 2, "what was canceled was interrupted"
            assert time.monotonic() - began < 8
            assert (await s.shell("cat", stdin="in")).stdout == "in"
            with pytest.raises(assay.Timeout):
                await s.run("time.sleep(9)", timeout=0.3)
        assert not hasattr(s, "variables")

    asyncio.run(main())


@pytest.mark.fleet
def test_fleet_that_goes_away(tmp_path: Path) -> None:
    """What is asked of a session then is Unreachable, and nothing waits for ever, the end of the client neither."""
    tmp_path.chmod(0o755)
    fleet, url = start_fleet(tmp_path / "fleet")
    try:
        c = assay.Client(url, patience=0.5)
        sessions = [c.session(functions=[abs]).start() for _ in range(3)]
        assert sessions[0].run("abs(-1)").value == 1
    finally:
        stop_fleet(fleet)
    with pytest.raises(assay.Unreachable):
        sessions[0].run("1")
    with pytest.raises(assay.Unreachable):
        sessions[1].get("x")
    began = time.monotonic()
    c.close()
    assert time.monotonic() - began < 20


def test_detached_sessions_live_on(client: assay.Client) -> None:
    s = client.session(lease=30).start()
    id = s.id
    s.detach()
    del s
    gc.collect()
    time.sleep(1)
    assert live(client, id)
    client.attach(id).close()


def test_dead_fleet() -> None:
    dead = assay.Client("http://127.0.0.1:1", patience=0.2)
    with pytest.raises(assay.Unreachable):
        dead.session().start()
    with pytest.raises(assay.Unreachable):
        dead.attach("01a21b3e-0000-7000-8000-000000000000").start()
