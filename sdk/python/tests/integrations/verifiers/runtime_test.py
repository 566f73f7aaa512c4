"""The runtime of verifiers, driven by its own Agent and by its own base class, on a real fleet."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import verifiers.v1 as vf
from verifiers.v1.agent import Agent
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.configs.harness import HarnessConfig
from verifiers.v1.errors import SandboxError
from verifiers.v1.harness import Harness
from verifiers.v1.harnesses.null.harness import NullHarnessConfig
from verifiers.v1.rollout import resolve_agent_runtime
from verifiers.v1.runtimes import ProgramResult, Runtime
from verifiers.v1.runtimes.subprocess import SubprocessConfig
from verifiers.v1.task import Task, TaskData

import assay
from assay.integrations.verifiers import AssayConfig, AssayRuntime, provision

URL = os.environ["ASSAY_TEST_URL"]
CONFIG = AssayConfig(url=URL)


def on_box(test: Callable[[AssayRuntime], Awaitable[None]], config: AssayConfig = CONFIG) -> None:
    async def main() -> None:
        async with provision(config) as box:
            await test(box)

    asyncio.run(main())


class Scripted(Harness[HarnessConfig]):
    """Replaces a program that calls a model: it does the model's actions."""

    program = "cat question > answer; echo done"

    async def setup(self, runtime: Runtime) -> None:
        await runtime.write("harness/begun", b"")

    async def launch(self, *args: Any, runtime: Runtime | None = None, **more: Any) -> ProgramResult:
        box = runtime or args[2]
        return await box.run_program(["sh", "-c", self.program], {})


class Copy(Task):
    async def setup(self, trace: Any, runtime: Runtime) -> None:
        await runtime.write("question", b"forty-two\n")

    @vf.reward
    async def copied(self, runtime: Runtime) -> float:
        return float(await runtime.read("answer", max_bytes=100) == b"forty-two\n")


def agent(program: str) -> Agent:
    harness = NullHarnessConfig(id="null")
    made = Agent(AgentConfig(model="scripted", harness=harness, runtime=SubprocessConfig()))
    made.harness = Scripted(HarnessConfig(id="scripted"))
    made.harness.program = program  # type: ignore[attr-defined]
    return made


def test_an_agent_runs_a_task_in_the_box_and_is_rewarded_for_what_it_left_there() -> None:
    async def test(box: AssayRuntime) -> None:
        for program, reward in (("cp question answer", 1.0), ("echo wrong > answer", 0.0)):
            async with agent(program) as a:
                trace = await a.run(Copy(TaskData(prompt="copy it")), runtime=box)
            assert not trace.errors, trace.errors
            assert trace.ok
            assert trace.reward == reward
            assert trace.agent.runtime.id == box.info.id
            assert await box.read("harness/begun") == b""
            assert type(trace).model_validate_json(trace.model_dump_json()).reward == reward

    on_box(test)


def test_a_box_that_is_gone_is_a_sandbox_error_and_no_reward() -> None:
    async def test(box: AssayRuntime) -> None:
        async with agent("python3 -c 'x = b\"x\" * 600_000_000'; true") as a:
            trace = await a.run(Copy(TaskData(prompt="x")), runtime=box)
        assert not trace.ok
        assert trace.errors[-1].type == "SandboxError"
        assert not trace.rewards
        assert not await box.alive()
        for use in (box.run(["true"], {}), box.read("x"), box.write("x", b""), box.open_process(["cat"], {})):
            with pytest.raises(SandboxError, match="memory"):
                await use

    on_box(test, AssayConfig(url=URL, memory=0.2, disk=0.1))


def test_programs_have_exit_codes_streams_and_the_environment_of_their_view() -> None:
    async def test(box: AssayRuntime) -> None:
        box.env = {"A": "box"}
        assert await box.run(["sh", "-c", "echo $A; echo e >&2; exit 3"], {}) == ProgramResult(3, "box\n", "e\n")
        view = box.with_env({"A": "view"})
        assert (await view.run(["sh", "-c", "echo $A$B"], {"B": "b"})).stdout == "viewb\n"
        assert (await view.run(["sh", "-c", "echo $A"], {"A": "own"})).stdout == "own\n"
        assert (await box.run(["no-such-program"], {})).exit_code == 127
        assert (await box.run(["/etc/passwd"], {})).exit_code == 126
        assert (await box.run(["sh", "-c", "kill -9 $$"], {})).exit_code == 137
        assert (await box.run(["printf", r"\377"], {})).stdout == "\ufffd"
        assert await box.alive()
        assert (box.info.id, box.info.workdir) == (box.sandbox.id, "/workspace")

    on_box(test)


def test_files_are_bytes_and_reads_have_a_limit() -> None:
    async def test(box: AssayRuntime) -> None:
        data = os.urandom(20 << 20)
        await box.write("deep/er/file", data)
        assert await box.read("deep/er/file") == data
        assert await box.read("/workspace/deep/er/file", max_bytes=len(data)) == data
        with pytest.raises(SandboxError, match="over the"):
            await box.read("/dev/zero", max_bytes=1000)
        for use in (box.read("none"), box.read("none", max_bytes=5), box.read("/etc"), box.write("/etc/x", b"")):
            with pytest.raises(SandboxError):
                await use

    on_box(test)


def test_a_live_process_is_written_to_and_read_as_it_goes() -> None:
    async def test(box: AssayRuntime) -> None:
        p = await box.open_process(
            ["python3", "-u", "-c", "import sys\nfor l in sys.stdin: print(l[::-1], end='')"], {}
        )
        await p.write(b"abc\n")
        assert await asyncio.wait_for(anext(p.stdout), 20) == b"\ncba"
        assert await p.poll() is None
        await p.terminate()
        assert await asyncio.wait_for(p.wait(), 20) == 143
        assert [piece async for piece in p.stdout] == []
        assert [piece async for piece in p.stderr] == []
        with pytest.raises(BrokenPipeError):
            await p.write(b"more")
        q = await box.open_process(["sh", "-c", "head -c 9000000 /dev/zero; echo err >&2; exit 7"], {})
        read = await asyncio.gather(*(joined(s) for s in (q.stdout, q.stderr)))
        assert (len(read[0]), read[1], await q.wait(), await q.poll()) == (9_000_000, b"err\n", 7, 7)
        r = await box.open_process(["sh", "-c", "sleep 100 & sleep 100"], {})
        await r.kill()
        assert await r.wait() == 137
        assert box.supports_live_processes
        with pytest.raises(SandboxError, match="no-such-program"):
            await box.open_process(["no-such-program"], {})

    on_box(test)


async def joined(stream: Any) -> bytes:
    return b"".join([piece async for piece in stream])


def test_a_background_program_writes_its_log_and_runs_on() -> None:
    async def test(box: AssayRuntime) -> None:
        await box.run_background(["python3", "-u", "-m", "http.server", "8123"], {}, "server.log")
        fetch = (
            "import urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open('http://127.0.0.1:8123').status)"
        )
        until = time.monotonic() + 20
        while (got := await box.run(["python3", "-c", fetch], {})).stdout != "200\n":
            assert time.monotonic() < until, got.stderr
            await asyncio.sleep(0.2)
        assert b"GET /" in await box.read("server.log")

    on_box(test)


def test_users_are_the_one_that_programs_are() -> None:
    async def test(box: AssayRuntime) -> None:
        assert (await box.with_user(None).run(["id", "-u"], {})).stdout == "1000\n"
        view = box.with_user("1000", home="/tmp")
        assert (await view.run(["sh", "-c", "id -u; echo $HOME"], {})).stdout == "1000\n/tmp\n"
        assert (view.user, box.user) == ("1000", None)
        with pytest.raises(ValueError, match="root"):
            box.with_user("root")
        with pytest.raises(ValueError, match="'root'"):
            await resolve_agent_runtime(box, "root")
        with pytest.raises(SandboxError, match="no address"):
            await box.expose(8000)

    on_box(test)


def test_a_canceled_run_leaves_nothing_behind_and_cleanup_ends_the_box() -> None:
    async def main() -> AssayRuntime:
        box = AssayRuntime(CONFIG)
        with pytest.raises(SandboxError, match="not started"):
            await box.run(["true"], {})
        await box.start()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(box.run(["sleep", "6543"], {}), 1)
        assert "6543" not in (await box.run(["sh", "-c", "cat /proc/[0-9]*/cmdline"], {})).stdout
        return box

    box = asyncio.run(main())
    id = box.info.id
    assert id
    box.cleanup()
    box.cleanup()
    with assay.Client(URL) as client:
        assert client.api.get_session(id).state == "ended"


def test_a_fleet_that_is_away_is_a_sandbox_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_PATIENCE", "1s")

    async def main() -> None:
        with pytest.raises(SandboxError, match="Unreachable"):
            async with provision(AssayConfig(url="http://127.0.0.1:9")):
                pass
        with pytest.raises(SandboxError, match=r"policy\.memory"):
            async with provision(AssayConfig(url=URL, policy={"memory": "plenty"})):
                pass

    asyncio.run(main())
