"""The execution environment: each field of its result, files, and failures of the fleet."""

from __future__ import annotations

import gc
import socket
from pathlib import Path

import pytest
from mellea.backends.tools import MelleaTool
from mellea.stdlib.tools.execution_policy import Artifact
from mellea.stdlib.tools.interpreter import ExecutionEnvironment, ExecutionResult, UnsafeEnvironment

import assay
from assay.integrations.mellea import AssayEnvironment
from conftest import Make


@pytest.mark.parametrize(
    "code",
    [
        "print('a'); import sys; print('b', file=sys.stderr)",
        "print('  spaces  ')",
        "import sys; sys.exit(3)",
        "import sys; sys.exit('a reason')",
        "if __name__ == '__main__': print(input.__name__)",
        "",
    ],
)
def test_as_mellea_has_it(make: Make, code: str) -> None:
    """The same results as in mellea's own environment, except their origin."""
    env = make(subprocess_execution=True)
    assert isinstance(env, ExecutionEnvironment)
    here, there = UnsafeEnvironment().execute(code), env.execute(code)
    assert isinstance(there, ExecutionResult)
    for field in (
        "success",
        "stdout",
        "stderr",
        "skipped",
        "skip_message",
        "analysis_result",
        "exit_code",
        "timed_out",
        "artifacts",
    ):
        assert getattr(there, field) == getattr(here, field), field
    assert (there.execution_mode, there.working_directory) == ("assay", "/workspace")


def test_failure(make: Make) -> None:
    r = make().execute("x = 1\nx / 0")
    assert (r.success, r.exit_code, r.skipped, r.stdout) == (False, 1, False, "")
    assert "line 2, in <module>\n    x / 0" in (r.stderr or "")
    assert r.to_validationresult_reason().endswith("ZeroDivisionError: division by zero")
    killed = make(limits={"memory": "64Mi"}).execute("x = bytearray(1 << 30)")
    assert (killed.success, killed.exit_code) == (False, -9)
    assert "out_of_memory" in killed.to_validationresult_reason()


def test_allowed_imports(make: Make) -> None:
    env = make(allowed_imports=["math", "json"])
    assert env.execute("import math, json.decoder\nfrom math import pi\nprint(pi)").success
    r = env.execute("import os.path, sys, math\nfrom os import environ")
    assert (r.success, r.skipped, r.stdout, r.stderr, r.exit_code) == (False, True, None, None, None)
    assert r.skip_message == "Unauthorized imports detected: os, sys"
    assert r.job is None
    assert not env.execute("import (").skipped, "a syntax error is the program's"


def test_working_directory(make: Make) -> None:
    r = make(working_directory="/data/run").execute("import os; open('x', 'w'); print(os.getcwd(), os.listdir())")
    assert r.working_directory == "/data/run"
    assert (r.stdout or "").startswith("/data/run ")


def test_copy_in(make: Make, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("word = 'imported'")
    (tmp_path / "big.bin").write_bytes(bytes(2 << 20))
    env = make()
    env.copy_in(tmp_path / "helper.py", "helper.py")
    env.copy_in(tmp_path / "big.bin", "/workspace/in/big.bin")
    r = env.execute("import helper, os; print(helper.word, os.path.getsize('in/big.bin'))")
    assert r.stdout == "imported 2097152"
    for bad in ("/etc/x", "../x", "/workspace/../etc/x", "/workspace"):
        with pytest.raises(ValueError, match="container_path"):
            env.copy_in(tmp_path / "helper.py", bad)
    with pytest.raises(FileNotFoundError):
        env.copy_in(tmp_path / "missing", "x")


def test_copy_out(make: Make, tmp_path: Path) -> None:
    env = make()
    with pytest.raises(RuntimeError, match="context manager"):
        env.copy_out("x", tmp_path / "x")
    with env:
        env.execute("open('deep.bin', 'wb').write(bytes(range(256)) * 4096); open('/tmp/n', 'w').write('1')")
        r = env.execute("n = int(open('/tmp/n').read()) + 1; open('/tmp/n', 'w').write(str(n)); print(n)")
        assert r.stdout == "2", "files live on from one execution to the next"
        env.copy_out("deep.bin", tmp_path / "deep.bin")
        assert (tmp_path / "deep.bin").read_bytes() == bytes(range(256)) * 4096
        assert not env.execute("import os; os.remove('deep.bin'); 1/0").success
        with pytest.raises(FileNotFoundError, match="deep"):
            env.copy_out("deep.bin", tmp_path / "again")
        with pytest.raises(FileNotFoundError):
            env.copy_out("/etc/passwd", tmp_path / "passwd")
    assert env.execute("import os; print(os.path.exists('/tmp/n'))").stdout == "False"


@pytest.mark.filterwarnings("ignore:CapabilityPolicy was constructed")
def test_disk(make: Make, tmp_path: Path) -> None:
    """Sent files do not reduce the code's disk limit; if they exceed a limit, the code has not failed."""
    (tmp_path / "in.bin").write_bytes(bytes(80 << 20))
    out = [Path("/out")]
    code = f"import os; open('x', 'wb').write(bytes(60 << 20)); print(os.path.getsize({str(tmp_path / 'in.bin')!r}))"
    r = make(filesystem_read_roots=[tmp_path], filesystem_write_roots=out).execute(code)
    assert r.stdout == str(80 << 20)
    with pytest.raises(ValueError, match=r"^limits: disk: "):
        make(filesystem_read_roots=[tmp_path], filesystem_write_roots=out, limits={"disk": "10Mi"}).execute(code)
    full = make(filesystem_write_roots=out, limits={"disk": "1Mi"}).execute("open('x', 'wb').write(bytes(2 << 20))")
    assert "No space left" in (full.stderr or "")


def test_artifacts_go_with_the_result(make: Make) -> None:
    with make(artifact_export_paths=[Path("a.json")]) as env:
        r = env.execute("open('a.json', 'w').write('{}'); open('b.json', 'w').write('{}')")
        (a,) = r.artifacts
        assert isinstance(a, Artifact)
        assert (a.path.read_text(), a.size_bytes, a.content_type) == ("{}", 2, "application/json")
        del r
        gc.collect()
        assert not a.path.exists()


def test_tool(make: Make) -> None:
    tool = make().tool("run")
    assert isinstance(tool, MelleaTool)
    assert (tool.name, list(tool.as_json_tool["function"]["parameters"]["properties"])) == ("run", ["code"])
    assert tool.run(code="print(6 * 7)").stdout == "42"


def test_fleet_failures_raise(make: Make) -> None:
    """They are never a result, which would look like a failure of the program."""
    with pytest.raises(assay.InfraError):
        make(image="there-is-no-such-image").execute("print(1)")
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = assay.Client(f"http://127.0.0.1:{s.getsockname()[1]}", patience=0)
        with pytest.raises(assay.Unreachable):
            make(client=dead).execute("print(1)")
    with pytest.raises(assay.Timeout):
        make(deadline=0.5).execute("import time; time.sleep(20)")


def test_bad_arguments(make: Make) -> None:
    env = make()
    with pytest.raises(TypeError, match=r"^code: "):
        env.execute(b"print(1)")  # type: ignore[arg-type]
    for bad in (0, -1, True, "1"):
        with pytest.raises(ValueError, match=r"^timeout: "):
            env.execute("1", timeout=bad)  # type: ignore[arg-type]


def test_code_that_is_no_text(make: Make) -> None:
    """Any text of a model is at worst a failure of the program."""
    for code in ("(\x00", "print('\udc80')", "x = '" + "y" * 9_000_000 + "'; print(len(x)); print(\udc80"):
        r = make().execute(code)
        assert (r.success, r.skipped, r.exit_code) == (False, False, 1)
        assert "SyntaxError" in (r.stderr or "")


def test_without_a_policy(client: assay.Client) -> None:
    r = AssayEnvironment(client=client).execute("import subprocess; print(subprocess.check_output(['echo', 'x']))")
    assert r.stdout == "b'x\\n'"
