"""SWE-ReX: its models, its exceptions and the shapes of its own tests, on a sandbox of a fleet."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from swerex import exceptions
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import DeploymentHook
from swerex.runtime.abstract import (
    AbstractRuntime,
    BashAction,
    BashInterruptAction,
    BashObservation,
    CloseBashSessionRequest,
    Command,
    CreateBashSessionRequest,
    ReadFileRequest,
    UploadRequest,
    WriteFileRequest,
)

import assay
from assay.integrations.swerex import AssayDeployment, AssayDeploymentConfig, AssayRuntime

T = TypeVar("T")


def run(c: Coroutine[Any, Any, T]) -> T:
    """Each call in an event loop of its own, as SWE-agent makes them."""
    return asyncio.run(c)


@pytest.fixture(scope="module")
def deployment(url: str) -> Iterator[AssayDeployment]:
    with assay.Client(url) as client:
        d = AssayDeployment(client=client, env={"GIVEN": "variable"})
        run(d.start())
        yield d
        run(d.stop())


@pytest.fixture
def runtime(deployment: AssayDeployment) -> AssayRuntime:
    return deployment.runtime


@pytest.fixture
def bash(runtime: AssayRuntime) -> Iterator[Callable[..., BashObservation]]:
    """Runs a command in a session of its own."""
    run(runtime.create_session(CreateBashSessionRequest()))

    def command(text: str, **options: Any) -> BashObservation:
        return run(runtime.run_in_session(BashAction(command=text, **{"timeout": 20, **options})))

    yield command
    run(runtime.close_session(CloseBashSessionRequest()))


# The deployment


def test_deployment(client: assay.Client) -> None:
    d = AssayDeploymentConfig(url=client.url, name="rex", policy={"memory": "512Mi"}).get_deployment()
    assert isinstance(d, AbstractDeployment)
    steps: list[str] = []

    class Hook(DeploymentHook):
        def on_custom_step(self, message: str) -> None:
            steps.append(message)

    d.add_hook(Hook())
    with pytest.raises(exceptions.DeploymentNotStartedError):
        _ = d.runtime
    with pytest.raises(exceptions.DeploymentNotStartedError):
        run(d.is_alive())
    run(d.start())
    assert isinstance(d.runtime, AbstractRuntime)
    assert run(d.is_alive(timeout=20))
    assert steps == ["Starting sandbox", "Sandbox started"]
    before = d.runtime
    run(d.start())
    assert d.runtime is before
    run(d.stop())
    run(d.stop())
    assert not run(before.is_alive(timeout=20)), "the sandbox has ended"
    with pytest.raises(exceptions.DeploymentNotStartedError):
        _ = d.runtime


def test_deployment_that_cannot_start(client: assay.Client) -> None:
    for bad in ({"policy": {"memory": "lots"}}, {"image": "there-is-no-such-image"}):
        with pytest.raises(exceptions.DeploymentStartupError):
            run(AssayDeployment(client=client, **bad).start())
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = assay.Client(f"http://127.0.0.1:{s.getsockname()[1]}", patience=0)
        with pytest.raises(exceptions.DeploymentStartupError):
            run(AssayDeployment(client=dead).start())
    with pytest.raises(ValueError, match="no_such_option"):
        AssayDeployment(client=client, no_such_option=1)


def test_sandbox_that_ended(client: assay.Client) -> None:
    d = AssayDeployment(client=client)
    run(d.start())
    run(d.runtime.create_session(CreateBashSessionRequest()))
    for s in client.api.list_sessions(state="live").sessions:
        if s.id == d.runtime._sandbox.id:
            client.api.close_session(s.id)
    with pytest.raises(assay.AssayError):
        run(d.runtime.run_in_session(BashAction(command="echo 1", timeout=20)))
    with pytest.raises(assay.AssayError):
        run(d.runtime.execute(Command(command=["true"])))
    assert not run(d.runtime.is_alive(timeout=20))
    run(d.stop())


# Sessions


def test_state_is_kept(bash: Callable[..., BashObservation]) -> None:
    assert bash("cd /tmp; export X=1; y=2; f() { echo f$y; }; alias g='echo aliased'").exit_code == 0
    assert bash("pwd; echo $X; f").output == "/tmp\n1\nf2\n"
    assert bash("g").output == "aliased\n"
    assert bash("echo $GIVEN").output == "variable\n"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("echo hello", "hello\n"),
        ("echo hello; echo world", "hello\nworld\n"),
        ("echo hello && echo world", "hello\nworld\n"),
        ("echo a\necho b", "a\nb\n"),
        ("echo 'a\nb'", "a\nb\n"),
        ("cat <<EOF\n\ttab\n$((1+1))\nEOF", "\ttab\n2\n"),
        ("for i in 1 2; do\n  echo $i\ndone", "1\n2\n"),
        ("# a comment", ""),
        ("", ""),
        ("printf no-newline", "no-newline"),
        ("echo a \\\n  b", "a b\n"),
        ("echo 'é ☃ \\ ! \"'", 'é ☃ \\ ! "\n'),
        ("echo err >&2", "err\n"),
        ("echo 'x'$'\\t'y", "x\ty\n"),
        ("printf '\\033[31mred\\033[0m\\n'", "red\n"),
        ("printf '\\xff\\n'", "\\xff\n"),
    ],
)
def test_commands(bash: Callable[..., BashObservation], command: str, output: str) -> None:
    r = bash(command)
    assert (r.output, r.exit_code, r.failure_reason) == (output, 0, "")


def test_large_output_and_command(bash: Callable[..., BashObservation]) -> None:
    assert len(bash("seq 1 300000").output) == len("".join(f"{i}\n" for i in range(1, 300001)))
    text = "x" * 50_000
    assert bash(f"printf '%s' {text} | wc -c").output == "50000\n"


def test_exit_codes(bash: Callable[..., BashObservation]) -> None:
    with pytest.raises(exceptions.NonZeroExitCodeError, match=r"what was tried: .*exit code 3"):
        bash("(exit 3)", error_msg="what was tried")
    assert bash("(exit 3)", check="silent").exit_code == 3
    assert bash("(exit 3)", check="ignore").exit_code is None
    assert bash("echo $?").output == "3\n"
    assert bash("no_such_command", check="silent").exit_code == 127


def test_bad_syntax(bash: Callable[..., BashObservation]) -> None:
    with pytest.raises(exceptions.BashIncorrectSyntaxError) as e:
        bash("if true; then")
    assert "syntax error" in e.value.extra_info["bash_stderr"]
    assert bash("echo on").output == "on\n"


def test_timeout_and_interrupt(bash: Callable[..., BashObservation], runtime: AssayRuntime) -> None:
    began = time.monotonic()
    with pytest.raises(exceptions.CommandTimeoutError, match=r"timeout after 0.5 seconds"):
        bash("echo before; sleep 30; echo after", timeout=0.5)
    assert time.monotonic() - began < 10
    r = run(runtime.run_in_session(BashInterruptAction()))
    assert (r.exit_code, "before" in r.output, "after" in r.output) == (0, True, False)
    assert bash("echo next").output == "next\n"
    assert run(runtime.run_in_session(BashInterruptAction())).exit_code == 0, "nothing runs"
    assert bash("echo next").output == "next\n"


def test_interrupt_of_what_ignores_it(bash: Callable[..., BashObservation], runtime: AssayRuntime) -> None:
    with pytest.raises(exceptions.CommandTimeoutError):
        bash("""python3 -c 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(60)'""", timeout=1.5)
    assert run(runtime.run_in_session(BashInterruptAction(n_retry=1))).exit_code == 0
    assert bash("echo next; jobs -r; jobs -s").output == "next\n"


def test_interrupt_from_beside(bash: Callable[..., BashObservation], runtime: AssayRuntime) -> None:
    async def both() -> tuple[BashObservation, BashObservation]:
        action = BashAction(command="sleep 60", check="silent", timeout=50)
        command = asyncio.create_task(runtime.run_in_session(action))
        await asyncio.sleep(1)
        stopped = await runtime.run_in_session(BashInterruptAction())
        return await command, stopped

    command, stopped = run(both())
    assert (command.exit_code, stopped.exit_code) == (130, 0)
    assert bash("echo next").output == "next\n"


def test_canceled_call(bash: Callable[..., BashObservation], runtime: AssayRuntime) -> None:
    async def canceled() -> None:
        await asyncio.wait_for(runtime.run_in_session(BashAction(command="sleep 60")), 0.5)

    began = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        run(canceled())
    assert time.monotonic() - began < 10, "the loop does not wait for the command"
    run(runtime.run_in_session(BashInterruptAction()))
    assert bash("echo next").output == "next\n"


def test_expect(bash: Callable[..., BashObservation]) -> None:
    r = bash("echo one; echo ready 42; sleep 0.2; echo more", expect=[r"ready \d+", "never"], check="silent")
    assert (r.expect_string, r.output) == (r"ready \d+", "one\n\nmore\n")
    with pytest.raises(exceptions.NoExitCodeError):
        bash("echo ready; sleep 30", expect=["ready"])


def test_interactive_program(bash: Callable[..., BashObservation]) -> None:
    r = bash("python3 -q", is_interactive_command=True, expect=[">>> "])
    assert r.expect_string == ">>> "
    r = bash("print(6 * 7)", is_interactive_command=True, expect=[">>> "])
    assert (r.output, r.exit_code) == ("42", 0)
    assert bash("exit()", is_interactive_quit=True).exit_code == 0
    assert bash("echo back").output == "back\n"


def test_bash_that_ended(runtime: AssayRuntime) -> None:
    run(runtime.create_session(CreateBashSessionRequest(session="ends")))
    with pytest.raises(exceptions.NoExitCodeError, match="ended"):
        run(runtime.run_in_session(BashAction(command="exit 4", session="ends", timeout=20)))
    with pytest.raises(exceptions.SessionNotInitializedError):
        run(runtime.run_in_session(BashAction(command="echo 1", session="ends", timeout=20)))
    run(runtime.close_session(CloseBashSessionRequest(session="ends")))


def test_sessions_by_name(runtime: AssayRuntime) -> None:
    run(runtime.write_file(WriteFileRequest(path="/tmp/start.sh", content="export S=sourced; echo started; PS1=other")))
    r = run(
        runtime.create_session(
            CreateBashSessionRequest(session="a", startup_source=["/tmp/start.sh"], startup_timeout=9)
        )
    )
    assert r.output == "started\n"
    run(runtime.create_session(CreateBashSessionRequest(session="b")))
    with pytest.raises(exceptions.SessionExistsError):
        run(runtime.create_session(CreateBashSessionRequest(session="b")))

    async def at_once() -> list[Any]:
        requests = [CreateBashSessionRequest(session="c") for _ in range(2)]
        return await asyncio.gather(*(runtime.create_session(r) for r in requests), return_exceptions=True)

    assert sorted(type(r).__name__ for r in run(at_once())) == ["CreateBashSessionResponse", "SessionExistsError"]
    assert run(runtime.run_in_session(BashAction(command="echo $S", session="a", timeout=20))).output == "sourced\n"
    assert run(runtime.run_in_session(BashAction(command="echo $S", session="b", timeout=20))).output == "\n"
    for name in ("a", "b", "c"):
        run(runtime.close_session(CloseBashSessionRequest(session=name)))
    with pytest.raises(exceptions.SessionDoesNotExistError):
        run(runtime.close_session(CloseBashSessionRequest(session="a")))
    with pytest.raises(exceptions.SessionDoesNotExistError):
        run(runtime.run_in_session(BashAction(command="echo 1", session="a")))


# Commands and files


def test_execute(runtime: AssayRuntime) -> None:
    def go(**options: Any) -> tuple[str, str, int | None]:
        r = run(runtime.execute(Command(**options)))
        return r.stdout, r.stderr, r.exit_code

    assert go(command=["sh", "-c", "echo out; echo err >&2; exit 3"]) == ("out\n", "err\n", 3)
    assert go(command="echo $GIVEN | tr a-z A-Z", shell=True) == ("VARIABLE\n", "", 0)
    assert go(command=["sh", "-c", "echo out; echo err >&2"], merge_output_streams=True) == ("out\nerr\n", "", 0)
    assert go(command=["pwd"], cwd="/tmp") == ("/tmp\n", "", 0)
    assert go(command="echo $X-$GIVEN", shell=True, env={"X": "x"}) == ("x-\n", "", 0)
    assert go(command=["sh", "-c", "kill -9 $$"])[2] == -9
    with pytest.raises(exceptions.NonZeroExitCodeError, match=r"tried: .*exit code 1"):
        go(command=["false"], check=True, error_msg="tried")
    with pytest.raises(exceptions.CommandTimeoutError, match=r"0.5s"):
        go(command=["sleep", "30"], timeout=0.5)
    with pytest.raises(FileNotFoundError):
        go(command=["no-such-command"])


def test_floods(runtime: AssayRuntime, bash: Callable[..., BashObservation]) -> None:
    with pytest.raises(exceptions.SwerexException, match="64 MiB"):
        run(runtime.execute(Command(command=["yes"])))
    with pytest.raises(exceptions.CommandTimeoutError):
        bash("yes", timeout=2)
    assert run(runtime.run_in_session(BashInterruptAction(timeout=10))).exit_code == 0
    assert bash("echo next").output == "next\n"


def test_several_at_once(runtime: AssayRuntime) -> None:
    async def several() -> list[str]:
        commands = [Command(command=f"sleep 0.5; echo {i}", shell=True) for i in range(8)]
        return [r.stdout for r in await asyncio.gather(*(runtime.execute(c) for c in commands))]

    assert run(several()) == [f"{i}\n" for i in range(8)]


def test_files(runtime: AssayRuntime) -> None:
    run(runtime.write_file(WriteFileRequest(path="/tmp/deep/er/a.txt", content="é\n")))
    assert run(runtime.read_file(ReadFileRequest(path="/tmp/deep/er/a.txt"))).content == "é\n"
    assert run(runtime.read_file(ReadFileRequest(path="/tmp/deep/er/a.txt", encoding="latin-1"))).content == "Ã©\n"
    r = run(runtime.read_file(ReadFileRequest(path="/tmp/deep/er/a.txt", encoding="ascii", errors="replace")))
    assert r.content == "��\n"
    with pytest.raises(UnicodeDecodeError):
        run(runtime.read_file(ReadFileRequest(path="/tmp/deep/er/a.txt", encoding="ascii")))
    with pytest.raises(FileNotFoundError):
        run(runtime.read_file(ReadFileRequest(path="/tmp/none")))
    with pytest.raises(IsADirectoryError):
        run(runtime.read_file(ReadFileRequest(path="/tmp")))
    with pytest.raises(OSError):
        run(runtime.write_file(WriteFileRequest(path="/etc/x", content="")))


def test_upload(runtime: AssayRuntime, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub" / "empty").mkdir(parents=True)
    (tree / "run.sh").write_text("echo from the script")
    (tree / "run.sh").chmod(0o755)
    (tree / "sub" / "b.bin").write_bytes(bytes(range(256)))
    (tree / "sub" / "b.bin").chmod(0o640)
    run(runtime.upload(UploadRequest(source_path=str(tree), target_path="/tmp/up")))
    r = run(
        runtime.execute(
            Command(command="cd /tmp/up && sh -c ./run.sh; find . | sort; stat -c %a:%s sub/b.bin", shell=True)
        )
    )
    assert r.stdout == "from the script\n.\n./run.sh\n./sub\n./sub/b.bin\n./sub/empty\n640:256\n"
    run(runtime.upload(UploadRequest(source_path=str(tree / "run.sh"), target_path="/tmp/up/sub")))
    assert run(runtime.read_file(ReadFileRequest(path="/tmp/up/sub/run.sh"))).content == "echo from the script"
    with pytest.raises(FileNotFoundError):
        run(runtime.upload(UploadRequest(source_path=str(tmp_path / "none"), target_path="/tmp/x")))


class Local:
    """A sandbox that is this machine, and whose commands of some names fail."""

    def __init__(self, *fails: str) -> None:
        self.fails = fails

    def write_file(self, path: str, data: bytes) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)

    def exec(self, argv: Sequence[str]) -> Any:
        argv = ["sh", "-c", "echo no such thing >&2; exit 1"] if argv[0] in self.fails else argv
        done = subprocess.run(argv, capture_output=True, check=False)
        return SimpleNamespace(
            ok=done.returncode == 0, exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr
        )


def test_upload_keeps_modes_of_files(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    modes = {"-run": 0o755, "private": 0o600, "sub/readonly": 0o444, "sub/group": 0o750, "sub/plain": 0o644}
    for name, mode in modes.items():
        (tree / name).write_text(name)
        (tree / name).chmod(mode)
    runtime = AssayRuntime(Local())  # pyright: ignore[reportArgumentType]
    run(runtime.upload(UploadRequest(source_path=str(tree), target_path=str(tmp_path / "up"))))
    assert {n: stat.S_IMODE(os.stat(tmp_path / "up" / n).st_mode) for n in modes} == modes


def test_upload_reports_commands_that_fail(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "empty").mkdir(parents=True)
    (tree / "run.sh").write_text("echo")
    for fails in ("chmod", "mkdir"):
        runtime = AssayRuntime(Local(fails))  # pyright: ignore[reportArgumentType]
        with pytest.raises(OSError, match=f"{fails}.*no such thing"):
            run(runtime.upload(UploadRequest(source_path=str(tree), target_path=str(tmp_path / "up"))))
