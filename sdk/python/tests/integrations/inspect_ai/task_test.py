"""Inspect tasks with a scripted model, whose tools and scorer use the fleet's sandboxes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Target, accuracy, scorer
from inspect_ai.solver import TaskState, basic_agent
from inspect_ai.tool import bash, python
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironmentSpec,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandbox,
)

import assay
from assay.integrations.inspect_ai import LABEL, AssaySandboxConfig, AssaySandboxEnvironment


@scorer(metrics=[accuracy()])
def in_the_sandbox() -> Any:
    """Scores a file that the agent wrote, in the agent's sandbox."""

    async def score(state: TaskState, target: Target) -> Score:
        found = (await sandbox().read_file("answer.txt")).strip()
        checked = await sandbox().exec(["sh", "-c", "test $(cat answer.txt) -eq $(wc -c < input.txt)"])
        return Score(value="C" if found == target.text and checked.success else "I", answer=found)

    return score


def task(config: Any = None) -> Task:
    return Task(
        dataset=[
            Sample(
                input="How many bytes has input.txt? Write it to answer.txt",
                target="12",
                files={"input.txt": "hello world\n"},
            )
        ],
        solver=basic_agent(tools=[bash(timeout=30), python(timeout=30)], max_attempts=1),
        scorer=in_the_sandbox(),
        sandbox=SandboxEnvironmentSpec("assay", config),
    )


def call(tool: str, **arguments: Any) -> ModelOutput:
    out = ModelOutput.for_tool_call("mockllm/model", tool, arguments)
    out.usage = ModelUsage()  # else its tokens are counted, which takes a download
    return out


def run(outputs: list[ModelOutput], config: Any = None, tmp: Path | None = None) -> EvalLog:
    model = get_model("mockllm/model", custom_outputs=outputs)
    return eval(task(config), model=model, display="none", log_dir=str(tmp), log_format="json")[0]


def outputs_of(log: EvalLog) -> list[str]:
    assert log.samples
    return [m.text for m in log.samples[0].messages if m.role == "tool"]


def test_an_agent_uses_its_tools_in_the_sandbox_and_is_scored(url: str, tmp_path: Path) -> None:
    log = run(
        [
            call("bash", command="cat input.txt; wc -c < input.txt; echo odd >&2"),
            call("python", code="n = len(open('input.txt').read())\nprint(n, file=open('answer.txt', 'w'))\nprint(n)"),
            call("submit", answer="done"),
        ],
        tmp=tmp_path,
    )
    assert log.status == "success", log.error
    shown = outputs_of(log)
    assert "hello world\n12" in shown[0]
    assert "odd" in shown[0]
    assert shown[1].strip() == "12"
    assert log.results
    assert log.results.scores[0].metrics["accuracy"].value == 1.0


def test_a_configuration_of_a_file_is_the_sandboxs(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assay.yaml").write_text("policy: {memory: 300Mi}\nenv: {N: '12'}\ncwd: /tmp\n")
    monkeypatch.chdir(tmp_path)
    given = [call("bash", command="pwd; echo $N | tee answer.txt"), call("submit", answer="done")]
    log = run(given, str(tmp_path / "assay.yaml"), tmp_path)
    assert log.status == "success", log.error
    assert outputs_of(log)[0].split() == ["/tmp", "12"]
    log = run(given, AssaySandboxConfig(env={"N": "13"}), tmp_path)
    assert log.results
    assert log.results.scores[0].metrics["accuracy"].value == 0.0


def test_a_sandbox_that_cannot_be_had_fails_the_task(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(assay.InvalidError, match=r"policy\.memory"):
        run([call("submit", answer="done")], AssaySandboxConfig(policy={"memory": "plenty"}), tmp_path)
    monkeypatch.setenv("ASSAY_PATIENCE", "1s")
    with pytest.raises(assay.Unreachable):
        run([call("submit", answer="done")], AssaySandboxConfig(url="http://127.0.0.1:9"), tmp_path)


def test_a_sandbox_that_ended_is_no_result(url: str, tmp_path: Path) -> None:
    log = run(
        [call("bash", command="python3 -c 'x = b\"x\" * 500_000_000'"), call("submit", answer="done")],
        AssaySandboxConfig(policy={"memory": "150Mi"}), tmp_path,
    )  # fmt: skip
    assert log.samples
    assert log.status == "error"
    assert not log.results
    failed = next(m.error for m in log.samples[0].messages if m.role == "tool")
    assert failed
    assert failed.type == "sandbox_unavailable"


def test_bad_configurations_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    with pytest.raises(ValueError, match="object"):
        AssaySandboxConfig.read(str(tmp_path / "list.json"))
    with pytest.raises(FileNotFoundError):
        AssaySandboxConfig.read(str(tmp_path / "none.yaml"))
    with pytest.raises(ValueError, match="memry"):
        AssaySandboxEnvironment.config_deserialize({"memry": "1Gi"})
    assert AssaySandboxEnvironment.config_deserialize({"image": "x"}) == AssaySandboxConfig(image="x")
    assert not AssaySandboxEnvironment.is_docker_compatible()
    assert AssaySandboxEnvironment.default_concurrency() == 16


def test_errors_are_those_of_the_contract(url: str) -> None:
    async def main() -> None:
        one = (await AssaySandboxEnvironment.sample_init("errors", None, {}))["default"]
        box = one.as_type(AssaySandboxEnvironment)
        missing = await box.exec(["no-such-command"])
        assert (missing.success, missing.returncode) == (False, 127)
        assert "no-such-command" in missing.stderr
        with pytest.raises(PermissionError):
            await box.write_file("/etc/x", "x")
        await box.write_file("latin", b"\xe9")
        with pytest.raises(UnicodeDecodeError):
            await box.read_file("latin")
        with pytest.raises(FileNotFoundError):
            await box.read_file("/etc/passwd/x")
        with pytest.raises(OutputLimitExceededError) as e:
            await box.exec(["sh", "-c", "yes"], timeout=60)
        assert len(e.value.truncated_output or "") == 10 << 20
        with pytest.raises(SandboxUserUnsupportedError):
            await box.exec(["id"], user="root")
        assert (await box.exec(["id", "-u"], user="1000")).stdout == "1000\n"
        with pytest.raises(TimeoutError) as t:
            await box.exec(["sh", "-c", "echo begun; sleep 60"], timeout=1)
        assert getattr(t.value, "truncated_output", None) == "begun\n"
        with pytest.raises(NotImplementedError):
            await box.connection()
        await AssaySandboxEnvironment.cli_cleanup(box.sandbox.id)
        for use in (box.exec(["ls"]), box.read_file("x"), box.write_file("x", "")):
            with pytest.raises(SandboxUnavailableError, match="closed by its client"):
                await use
        await AssaySandboxEnvironment.sample_cleanup("errors", None, {"default": one}, True)

    asyncio.run(main())


def test_cleanup_leaves_no_sandbox(url: str) -> None:
    async def main() -> None:
        made = [await AssaySandboxEnvironment.sample_init("cleanup", None, {}) for _ in range(2)]
        await AssaySandboxEnvironment.sample_cleanup("cleanup", None, made[0], True)
        await AssaySandboxEnvironment.cli_cleanup(None)
        await AssaySandboxEnvironment.sample_cleanup("cleanup", None, made[1], False)

    asyncio.run(main())
    with assay.Client(url) as client:
        assert not [s for s in client.api.list_sessions(state="live").sessions if LABEL in (s.spec.labels or {})]


def test_a_command_whose_scope_is_canceled_is_killed(url: str) -> None:
    async def main() -> None:
        import anyio

        made = await AssaySandboxEnvironment.sample_init("cancel", None, {})
        box = made["default"]
        with anyio.move_on_after(1):
            await box.exec(["sh", "-c", "sleep 7777; true"])
        began = time.monotonic()
        with contextlib.suppress(TimeoutError):
            while "7777" in (await box.exec(["sh", "-c", "cat /proc/[0-9]*/cmdline; true"])).stdout.replace("cat", ""):
                assert time.monotonic() - began < 10
        await AssaySandboxEnvironment.sample_cleanup("cancel", None, made, True)

    asyncio.run(main())
