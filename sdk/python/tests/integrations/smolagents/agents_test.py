"""Agents of smolagents with an AssayExecutor: the code that a scripted model writes runs on the fleet."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from smolagents import ChatMessage, CodeAgent, MessageRole, Model, Tool, tool
from smolagents.memory import ActionStep
from smolagents.monitoring import LogLevel

import assay
from assay.integrations.smolagents import AssayExecutor
from fleet import kill_worker, start_fleet, stop_fleet


class Script(Model):
    """Returns scripted answers in turn, and keeps its inputs."""

    def __init__(self, *codes: str) -> None:
        super().__init__(model_id="script")
        self.codes = list(codes)
        self.told: list[str] = []

    def generate(self, messages: list[Any], *_: Any, **__: Any) -> ChatMessage:
        self.told.append(str(messages[-1].content))
        code = self.codes.pop(0) if self.codes else "I cannot"
        return ChatMessage(role=MessageRole.ASSISTANT, content=f"Thought: so.\n<code>\n{code}\n</code>")


@tool
def area(width: int, height: int = 2) -> int:
    """Area of a rectangle.

    Args:
        width: One side.
        height: The other.
    """
    return width * height


class Lookup(Tool):
    name = "lookup"
    description = "Looks something up, with a key that only this process has."
    inputs = {"word": {"type": "string", "description": "What to look up."}}
    output_type = "object"

    def __init__(self, words: dict[str, Any]) -> None:
        super().__init__()
        self.words = words

    def forward(self, word: str) -> Any:
        return self.words[word]


def agent(model: Script, executor: AssayExecutor, tools: list[Any], **options: Any) -> CodeAgent:
    return CodeAgent(tools=tools, model=model, executor=executor, verbosity_level=LogLevel.OFF, **options)


def steps(a: CodeAgent) -> list[ActionStep]:
    return [s for s in a.memory.steps if isinstance(s, ActionStep)]


def test_steps(client: assay.Client) -> None:
    """Tools of both kinds, an argument of the run, an error that the agent sees and mends, a final answer."""
    model = Script(
        "a = area(3)\nprint('area', a, len(document))",
        "print('so far')\nb = lookup('missing')",
        "b = lookup('present')\nb['list']",
        "final_answer({'a': a, 'b': b['list'], 'n': len(document)})",
    )
    executor = AssayExecutor(client=client, host_tools=["lookup"])
    with agent(model, executor, [area, Lookup({"present": {"list": (1, 2)}})]) as a:
        result = a.run("Do it.", additional_args={"document": "word " * 1000})
    assert result == {"a": 6, "b": (1, 2), "n": 5000}
    assert "area 6 5000" in model.told[1]
    assert "KeyError" in model.told[2]
    first, failed, third, last = steps(a)
    assert (first.observations or "").startswith("Execution logs:\narea 6 5000")
    assert failed.observations == "Execution logs:\nso far\n"
    assert "CallError: lookup: KeyError: 'missing'" in str(failed.error)
    assert "line 2, in <module>" in str(failed.error)
    assert third.action_output == "(1, 2)"
    assert last.is_final_answer
    assert client.api.get_session(executor.session_id or "").state == "ended"


def test_two_runs(client: assay.Client) -> None:
    """The second one goes on where the first one ended."""
    model = Script("kept = 20\nfinal_answer('first')", "final_answer(kept + 1)")
    with agent(model, AssayExecutor(client=client), []) as a:
        assert a.run("One.") == "first"
        assert a.run("Two.", reset=False) == 21


def test_managed_agent(client: assay.Client) -> None:
    """An agent that is managed stays in this process, with its own session; its answer goes to the code as text."""
    inner = agent(
        Script("final_answer('the answer is ' + str(6 * 7))"), AssayExecutor(client=client), [],
        name="helper", description="Answers questions.",
    )  # fmt: skip
    model = Script("r = helper(task='What is it?')\nprint('answer is' in r)", "final_answer(r)")
    with agent(model, AssayExecutor(client=client), [], managed_agents=[inner]) as a:
        result = a.run("Ask.")
    assert "the answer is 42" in result
    assert "True" in model.told[1]
    inner.cleanup()


def test_checks_of_final_answers(client: assay.Client) -> None:
    model = Script("final_answer(1)", "final_answer(2)")

    def even(answer: Any, memory: Any, agent: Any) -> bool:
        return answer % 2 == 0

    with agent(model, AssayExecutor(client=client), [], final_answer_checks=[even]) as a:
        assert a.run("Even, please.") == 2
    assert "Check even failed" in str(steps(a)[0].error)


def test_session_that_ends(client: assay.Client) -> None:
    """That is no step that the model could mend, and never becomes an answer."""
    model = Script("x = [bytearray(1 << 20) for _ in range(1000)]", "final_answer('made up')")
    with agent(model, AssayExecutor(client=client, policy={"memory": "64Mi"}), []) as a:
        with pytest.raises(assay.AssayError) as error:
            a.run("Use memory.")
    assert getattr(error.value, "outcome", "") == "out_of_memory"
    assert len(model.told) == 1


def test_managed_agent_whose_session_ends(client: assay.Client) -> None:
    inner = agent(
        Script("import os; os._exit(1)"), AssayExecutor(client=client), [], name="helper", description="Breaks."
    )
    model = Script("try:\n    helper(task='x')\nexcept Exception:\n    final_answer('made up')")
    with agent(model, AssayExecutor(client=client), [], managed_agents=[inner]) as a, pytest.raises(assay.AssayError):
        a.run("Ask.")
    assert len(model.told) == 1


def test_worker_that_is_gone(tmp_path: Path) -> None:
    fleet, url = start_fleet(tmp_path / "fleet")
    try:
        with assay.Client(url) as client:
            model = Script("import time; time.sleep(60)", "final_answer('made up')")
            with agent(model, AssayExecutor(client=client), []) as a:
                threading.Timer(2, lambda: kill_worker(fleet)).start()
                with pytest.raises(assay.AssayError, match="worker") as error:
                    a.run("Wait.")
        assert getattr(error.value, "outcome", "") == "lost"
        assert len(model.told) == 1
    finally:
        stop_fleet(fleet)


def test_fleet_that_is_away() -> None:
    with assay.Client("http://127.0.0.1:1", patience=0) as client:
        model = Script("final_answer('made up')")
        with pytest.raises(assay.Unreachable):
            agent(model, AssayExecutor(client=client), []).run("Do it.")
    assert model.told == []
