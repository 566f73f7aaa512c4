"""Sessions on a real fleet: executions, variables, files, copies and shell."""

from __future__ import annotations

import pickle
import threading
import time
from typing import Any

import pytest

import assay


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
    assert session.run("{1}").value == {1}
    assert session.run("iter").value == "<built-in function iter>", "a value that cannot cross is shown by its repr"
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
    assert v["t"] == (1, 2)


def test_wrong_names_and_values(session: assay.Session) -> None:
    for name in ("", "a b", "1x", "a/b", "ü-", "../x", None, 7):
        with pytest.raises(ValueError, match="name"):
            session.set(name, 1)  # type: ignore[arg-type]
    with pytest.raises(assay.NotFoundError):
        session.get("nope")
    with pytest.raises(assay.InvalidError, match="variables"):
        session.run("1", variables={"a b": 1})
    for value in (float, object(), {iter}, range):
        with pytest.raises((TypeError, ValueError)):
            session.set("x", value)
    with pytest.raises(assay.UnsendableError, match="x: has more than 16 MiB"):
        session.set("x", "x" * (17 << 20))
    session.run("big = 'x' * (17 << 20)")
    with pytest.raises(assay.TooLargeError):
        session.get("big")
    assert "big" in session.variables
    with pytest.raises(assay.InvalidError):
        session.run("")


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
