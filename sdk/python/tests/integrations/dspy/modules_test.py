"""Modules of DSPy with an AssayInterpreter: the code that a scripted model writes runs on the fleet."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import dspy
import pytest
from dspy.primitives.code_interpreter import CodeInterpreterError
from dspy.utils import DummyLM

import assay
from assay.integrations.dspy import AssayInterpreter

warnings.filterwarnings("ignore", category=DeprecationWarning)


@pytest.fixture
def factory(client: assay.Client) -> Callable[[], AssayInterpreter]:
    return AssayInterpreter.factory(client=client)


def steps(*code: str) -> DummyLM:
    return DummyLM([{"reasoning": f"step {i}", "code": f"```python\n{c}\n```"} for i, c in enumerate(code)])


def test_rlm(factory: Callable[[], AssayInterpreter]) -> None:
    """Several steps; the sandbox asks the model again, eight times at once; an error is seen and mended."""
    barrier = threading.Barrier(8)

    def ask(prompt: str) -> list[str]:
        if prompt.startswith("part"):
            barrier.wait(30)
        return [f"<{prompt[:20]}>"]

    lm = steps(
        "print(len(context), query)",
        "x = 1 / 0",
        "one = llm_query('what is it?')\nprint(one)",
        "many = llm_query_batched([f'part {i}' for i in range(8)])\nprint(many[7])",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(8) as pool: again = list(pool.map(lambda i: llm_query(f'part {i}'), range(8)))\n"
        "print(again == many)",
        "SUBMIT(answer=one + many[0], count=len(many))",
    )
    rlm = dspy.RLM("context, query -> answer: str, count: int", interpreter_factory=factory, sub_lm=ask)  # type: ignore[arg-type]
    with dspy.context(lm=lm):
        result = rlm(context="word " * 200_000, query="how many?")
    assert (result.answer, result.count) == ("<what is it?><part 0>", 8)
    outputs = [str(entry) for entry in result.trajectory]
    assert "1000000 how many?" in outputs[0]
    assert "[Error] ZeroDivisionError: division by zero (line 1: x = 1 / 0)" in outputs[1]
    assert "<part 7>" in outputs[3]
    assert "True" in outputs[4]


def test_rlm_tools_and_outputs(factory: Callable[[], AssayInterpreter]) -> None:
    def search(query: str, limit: int = 2) -> list[dict[str, Any]]:
        """Finds documents."""
        return [{"title": f"{query} {i}"} for i in range(limit)]

    lm = steps(
        "print(search('cats', limit=1), search('dogs')[1]['title'])",
        "SUBMIT('not a number')",
        "SUBMIT(len(search(query='x', limit=3)))",
    )
    rlm = dspy.RLM("question -> n: int", tools=[search], interpreter_factory=factory)
    with dspy.context(lm=lm):
        result = rlm(question="?")
    assert result.n == 3
    assert "dogs 1" in str(result.trajectory[0])
    assert "[Type Error] n" in str(result.trajectory[1])


def test_rlm_sub_agents(factory: Callable[[], AssayInterpreter]) -> None:
    """Code makes modules of DSPy, which run here: one asks the model, one has a session of its own."""
    lm = steps(
        "import dspy\nprint(dspy.Predict('question -> color')(question='the sky?').color)",
        "inner = dspy.RLM('context -> size: int')(context='abc')\nSUBMIT(inner.size)",
    )
    sub_lm = DummyLM([{"color": "blue"}, {"reasoning": "", "code": "SUBMIT(len(context))"}])
    rlm = dspy.RLM("question -> answer: int", interpreter_factory=factory, sub_lm=sub_lm)
    with dspy.context(lm=lm):
        result = rlm(question="?")
    assert result.answer == 3
    assert "blue" in str(result.trajectory[0])


def test_rlm_ends_with_its_session(client: assay.Client) -> None:
    """A session that is gone is no answer, and no step."""
    made: list[AssayInterpreter] = []

    def factory() -> AssayInterpreter:
        made.append(AssayInterpreter(client=client, policy={"memory": "64Mi"}))
        return made[-1]

    lm = steps("x = [bytearray(1 << 20) for _ in range(1000)]", "SUBMIT('made up')")
    with dspy.context(lm=lm), pytest.raises(CodeInterpreterError, match="out_of_memory"):
        dspy.RLM("q -> a", interpreter_factory=factory)(q="?")
    assert len(made) == 1


def test_rlm_async(factory: Callable[[], AssayInterpreter]) -> None:
    import asyncio

    async def main() -> Any:
        with dspy.context(lm=steps("SUBMIT(q.upper())")):
            return await dspy.RLM("q -> a", interpreter_factory=factory).acall(q="x")

    assert asyncio.run(main()).a == "X"


def test_program_of_thought(factory: Callable[[], AssayInterpreter]) -> None:
    lm = DummyLM(
        [
            {"reasoning": "wrong", "generated_code": "```python\nSUBMIT({'answer': 1 / 0})\n```"},
            {
                "reasoning": "right",
                "generated_code": "```python\nimport numpy\nSUBMIT({'answer': int(numpy.sum([1, 1]))})\n```",
            },
            {"reasoning": "so", "answer": "2"},
        ]
    )
    with dspy.context(lm=lm):
        result = dspy.ProgramOfThought("question -> answer", interpreter_factory=factory)(question="1 + 1?")
    assert result.answer == "2"
    with (
        pytest.raises(RuntimeError, match=r"Max hops reached.*ZeroDivisionError"),
        dspy.context(lm=DummyLM([{"reasoning": "wrong", "generated_code": "1 / 0"}] * 3)),
    ):
        dspy.ProgramOfThought("question -> answer", interpreter_factory=factory)(question="?")


def test_program_of_thought_on_one_that_is_given(client: assay.Client) -> None:
    lm = DummyLM([{"reasoning": "", "generated_code": "SUBMIT({'answer': kept})"}, {"reasoning": "", "answer": "7"}])
    with AssayInterpreter(client=client) as i, dspy.context(lm=lm):
        i.execute("kept = 7")
        assert dspy.ProgramOfThought("question -> answer")(i, question="?").answer == "7"
        assert i.execute("kept") == 7


def factorial(n: int) -> int:
    """n!"""
    return 1 if n < 2 else n * factorial(n - 1)


def test_code_act(factory: Callable[[], AssayInterpreter]) -> None:
    """Its tools go to the sandbox as source, that is how the module does it."""
    lm = DummyLM(
        [
            {"generated_code": "```python\nprint(factorial(5))\n```", "finished": False},
            {"generated_code": "```python\nx = factorial(6)\nprint(x)\n```", "finished": True},
            {"reasoning": "", "result": "720"},
        ]
    )
    act = dspy.CodeAct("n -> result", tools=[factorial], interpreter_factory=factory)
    with dspy.context(lm=lm):
        result = act(n=5)
    assert result.result == "720"


def test_flex(factory: Callable[[], AssayInterpreter]) -> None:
    """An optimizer's code runs in the sandbox; its predictors and tools here."""
    flex = dspy.Flex("question -> answer", tools=[dspy.Tool(factorial)], interpreter_factory=factory)
    flex._bind_code(
        "import dspy\nclass M(dspy.Module):\n"
        "    def __init__(self):\n        self.p = dspy.Predict('question -> answer')\n"
        "    def forward(self, question):\n"
        "        return dspy.Prediction(answer=self.p(question=question).answer * 30_000 + str(factorial(n=4)))"
    )
    with dspy.context(lm=DummyLM([{"answer": "abc"}])):
        assert flex(question="?").answer == "abc" * 30_000 + "24"


def test_configure(client: assay.Client, factory: Callable[[], AssayInterpreter]) -> None:
    lm = steps("import sys; SUBMIT(sys.platform)")
    with dspy.context(lm=lm, interpreter_factory=factory):
        assert dspy.RLM("q -> a")(q="?").a == "linux"


def test_factory(client: assay.Client) -> None:
    """The model receives it. It survives the copies that DSPy makes of modules, and makes a new one for each run."""
    factory = AssayInterpreter.factory(client=client, execution_instructions="There is pandas.")
    rlm = dspy.RLM("q -> a", interpreter_factory=factory).deepcopy()
    assert "There is pandas." in rlm.generate_action.signature.instructions
    assert "There is pandas." in dspy.RLM("q -> a", interpreter_factory=factory).generate_action.signature.instructions
    assert (
        AssayInterpreter.execution_instructions
        in dspy.RLM("q -> a", interpreter_factory=AssayInterpreter).generate_action.signature.instructions
    )
    lm = steps("x = 1; SUBMIT('x' in globals())", "SUBMIT('x' in globals())")
    with dspy.context(lm=lm):
        assert rlm(q="?").a == "True"
        assert rlm(q="?").a == "False"


def test_runs_at_once(factory: Callable[[], AssayInterpreter]) -> None:
    """Sixteen runs of one module by dspy.Parallel, each with a session of its own."""

    def answer(prompt: str) -> list[str]:
        return [prompt]

    lm = DummyLM([{"reasoning": "", "code": "SUBMIT(llm_query(q))"}] * 16)
    rlm = dspy.RLM("q -> a", interpreter_factory=factory, sub_lm=answer)  # type: ignore[arg-type]
    with dspy.context(lm=lm):
        results = dspy.Parallel(num_threads=8, disable_progress_bar=True)(
            [(rlm, dspy.Example(q=f"q{n}").with_inputs("q")) for n in range(16)]
        )
    assert sorted(r.a for r in results) == sorted(f"q{n}" for n in range(16))
