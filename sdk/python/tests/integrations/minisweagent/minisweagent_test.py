"""mini-swe-agent: its own agent with a scripted model solves a task in a sandbox of a fleet."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"

import pytest
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments import get_environment
from minisweagent.environments.local import LocalEnvironment
from minisweagent.exceptions import Submitted
from minisweagent.models.test_models import DeterministicModel

import assay
from assay.integrations.minisweagent import AssayEnvironment

CONFIG = {
    "system_template": "You solve tasks on {{system}} ({{machine}}), in {{cwd}}.",
    "instance_template": "{{task}}",
    "step_limit": 20,
    "cost_limit": 0.0,
}


@pytest.fixture(scope="module")
def env(url: str) -> Iterator[AssayEnvironment]:
    with assay.Client(url) as client, AssayEnvironment(client=client, env={"GIVEN": "variable"}) as e:
        yield e


def agent(env: Any, *commands: str, **config: Any) -> DefaultAgent:
    """An agent whose model returns these commands, one after the other."""
    outputs = [{"role": "assistant", "content": c, "extra": {"actions": [{"command": c}]}} for c in commands]
    return DefaultAgent(DeterministicModel(outputs=outputs), env, **{**CONFIG, **config})


def test_agent_solves_a_task(client: assay.Client, tmp_path: Path) -> None:
    with AssayEnvironment(client=client, cwd="/workspace") as env:
        a = agent(
            env,
            "printf 'def add(a, b):\\n    return a - b\\n' > add.py",
            "printf 'from add import add\\nassert add(2, 3) == 5\\n' > test_add.py",
            "python3 test_add.py",
            "sed -i 's/a - b/a + b/' add.py && python3 test_add.py && echo passed",
            "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT && cat add.py",
            output_path=tmp_path / "trajectory.json",
        )
        info = a.run("Make the test pass.")
    assert info == {"exit_status": "Submitted", "submission": "def add(a, b):\n    return a + b\n"}
    said = [m["content"] for m in a.messages]
    assert said[0] == "You solve tasks on Linux (x86_64), in /workspace." or "aarch64" in said[0]
    assert "<returncode>1</returncode>" in said[7]
    assert "AssertionError" in said[7]
    assert "passed" in said[9]
    saved = json.loads((tmp_path / "trajectory.json").read_text())["info"]
    assert (saved["exit_status"], saved["config"]["environment_type"]) == (
        "Submitted",
        "assay.integrations.minisweagent.AssayEnvironment",
    )
    assert saved["config"]["environment"]["cwd"] == "/workspace"


def test_by_its_name(url: str) -> None:
    name = "assay.integrations.minisweagent.AssayEnvironment"
    env: Any = get_environment({"environment_class": name, "url": url, "timeout": 20})
    assert env.execute({"command": "echo 1"}) == {"output": "1\n", "returncode": 0, "exception_info": ""}
    env.cleanup()
    env.cleanup()


@pytest.mark.parametrize(
    "command",
    [
        "echo out; echo err >&2; exit 3",
        "printf 'no newline'",
        "cat <<'EOF'\n$HOME 'quoted' \"twice\"\nEOF",
        "no_such_command_at_all 2> /dev/null",
        "printf '\\377'",
        "false",
        "",
        "cat",
        "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; exit 1",
    ],
)
def test_as_its_own_environment_has_it(env: AssayEnvironment, command: str) -> None:
    assert env.execute({"command": command}) == LocalEnvironment().execute({"command": command})


def test_submitted(env: AssayEnvironment) -> None:
    for e in (env, LocalEnvironment()):
        with pytest.raises(Submitted) as s:
            e.execute({"command": "printf '\\n COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT \\nline 1\\nline 2\\n'"})
        assert s.value.messages[0] == {
            "role": "exit",
            "content": "line 1\nline 2\n",
            "extra": {"exit_status": "Submitted", "submission": "line 1\nline 2\n"},
        }


def test_files_live_on_and_directories_do_not(env: AssayEnvironment) -> None:
    env.execute({"command": "mkdir -p deep && cd deep && echo 1 > a"})
    assert env.execute({"command": "pwd; cat deep/a; echo $GIVEN"})["output"] == "/workspace\n1\nvariable\n"
    assert env.execute({"command": "cat a"}, cwd="/workspace/deep")["output"] == "1\n"
    assert env.execute({"command": "cat a"}, "deep")["output"] == "1\n"


def test_timeout(env: AssayEnvironment) -> None:
    began = time.monotonic()
    r = env.execute({"command": "echo before; sleep 60"}, timeout=1)
    assert time.monotonic() - began < 15
    assert (r["output"], r["returncode"]) == ("before\n", -1)
    assert r["exception_info"].startswith("An error occurred while executing the command: Command 'echo before")
    assert r["extra"]["exception_type"] == "TimeoutExpired"
    assert env.execute({"command": "cat /proc/[0-9]*/comm | grep -c sleep"})["output"] == "0\n"


def test_output_limit(client: assay.Client) -> None:
    with AssayEnvironment(client=client, output_limit=100_000) as e:
        r = e.execute({"command": "yes"})
        assert (len(r["output"]), r["returncode"], r["extra"]["exception_type"]) == (100_000, -1, "OverflowError")
        assert e.execute({"command": "echo on"})["output"] == "on\n"


def test_no_such_directory(env: AssayEnvironment) -> None:
    r = env.execute({"command": "true"}, cwd="/no/such/directory")
    assert (r["returncode"], r["extra"]["exception_type"]) == (-1, "FileNotFoundError")


def test_forwarded_variables(client: assay.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED", "of this machine")
    monkeypatch.setenv("SECRET", "of this machine")
    with AssayEnvironment(client=client, forward_env=["FORWARDED", "NOT_SET"], env={"A": "b"}) as e:
        assert e.execute({"command": "echo $A,$FORWARDED,$SECRET"})["output"] == "b,of this machine,\n"


def test_template_variables(env: AssayEnvironment) -> None:
    v = env.get_template_vars(task="t")
    assert (v["system"], v["task"], v["timeout"], v["env"]) == ("Linux", "t", 30, {"GIVEN": "variable"})
    assert {"node", "release", "version", "machine"} <= set(v)


def test_fleet_failures_end_the_run(client: assay.Client) -> None:
    """They are not outputs: an agent would try to fix these."""
    with pytest.raises(assay.InvalidError):
        AssayEnvironment(client=client, policy={"memory": "lots"})
    env = AssayEnvironment(client=client)
    client.api.close_session(env._sandbox.id)
    a = agent(env, "echo 1")
    with pytest.raises(assay.AssayError):
        a.run("task")
    assert a.messages[-1]["extra"]["exit_status"] == "ConflictError"
    dead = assay.Client("http://127.0.0.1:9", patience=0)
    with pytest.raises(assay.Unreachable):
        AssayEnvironment(client=dead)
