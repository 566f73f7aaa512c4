"""TRL: its GRPO trainer, with a model of a few thousand weights, calls the reward functions over a fleet."""

from __future__ import annotations

import asyncio
import math
import pickle
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import pytest
import torch
from datasets import Dataset
from samples import ASSERTS, CALLS, SAMPLES, STDIO, block
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import get_callable_name, is_async_callable

import assay
from assay.integrations.trl import AsyncCodeReward, CodeReward, async_code_reward, code_reward

ADD = block("def add(a, b):\n    return a + b")
SUB = block("def add(a, b):\n    return a - b")
BROKEN = {"function": "add", "check": "def test_it():\n    import no_such_module\n    assert add(1, 2) == 3\n"}


@pytest.fixture(autouse=True)
def environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", url)


def trainer(
    functions: list[Any], rows: list[dict[str, Any]], tokenizer: PreTrainedTokenizerFast, path: Path
) -> GRPOTrainer:
    shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    arguments = GRPOConfig(
        str(path), per_device_train_batch_size=len(rows), num_generations=2, max_completion_length=8, max_steps=1,
        report_to=[], use_cpu=True, bf16=False, logging_steps=1, save_strategy="no",
    )  # fmt: skip
    return GRPOTrainer(
        LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape, **special)),
        reward_funcs=functions, args=arguments, train_dataset=Dataset.from_list(rows), processing_class=tokenizer,
    )  # fmt: skip


def rewards(t: GRPOTrainer, rows: list[dict[str, Any]], completions: list[Any]) -> list[list[float | None]]:
    """The trainer's rewards for the test's completions: a row for each reward function."""
    found = t._calculate_rewards(rows, [r["prompt"] for r in rows], completions, [[0]] * len(rows))
    return [[None if math.isnan(v) else v for v in column] for column in found.T.tolist()]


def test_rewards_of_every_format(tokenizer: Any, tmp_path: Path) -> None:
    """Synchronous and asynchronous, text and messages; None where there are no tests."""
    rows = [{"prompt": "p", "tests": s.truth if isinstance(s.truth, str) else None} for s in SAMPLES]
    want = [s.score if isinstance(s.truth, str) else None for s in SAMPLES]
    t = trainer([code_reward, async_code_reward], rows, tokenizer, tmp_path)
    assert rewards(t, rows, [s.answer for s in SAMPLES]) == [want, want]
    spoken = [[{"role": "assistant", "content": s.answer}] for s in SAMPLES]
    assert rewards(t, rows, spoken) == [want, want]
    parts = [[{"role": "tool", "content": ADD}, {"role": "assistant", "content": [{"type": "text", "text": s.answer}]}]
             for s in SAMPLES]  # fmt: skip
    assert rewards(t, rows, parts) == [want, want]
    assert t._pending_extra_logs["code_reward/outcome"][0] == "succeeded"
    assert t._pending_metrics["code_reward/unknown"] == [0.0] * 3


def test_objects_in_columns(tokenizer: Any, tmp_path: Path) -> None:
    """A column of objects, for which a data set makes the fields of all of them."""
    truths = [ASSERTS, {"inputs": ["1\n2"], "outputs": ["3"], "fn_name": "add"}] * 2
    rows = list(Dataset.from_list([{"prompt": "p", "truth": t} for t in truths]))
    assert rows[0]["truth"]["fn_name"] is None
    t = trainer([CodeReward("truth", reward="pass")], rows, tokenizer, tmp_path)
    assert rewards(t, rows, [ADD, ADD, SUB, SUB]) == [[1, 1, 0, 0]]


def test_training_step(tokenizer: Any, tmp_path: Path) -> None:
    """A whole step: the model's output is not code."""
    rows = [{"prompt": f"Add {i}", "tests": CALLS} for i in range(4)]
    t = trainer([code_reward, async_code_reward], rows, tokenizer, tmp_path)
    t.train()
    (log, *_) = [h for h in t.state.log_history if "reward" in h]
    assert (log["rewards/code_reward/mean"], log["rewards/async_code_reward/mean"], log["reward"]) == (0, 0, 0)
    assert log["code_reward/unknown"] == log["code_reward/broken"] == 0


def test_infrastructure_is_no_reward(tokenizer: Any, tmp_path: Path) -> None:
    """One has no verdict, another has broken tests: both are None, which the trainer omits."""
    rows = [{"prompt": "p", "tests": t} for t in (CALLS, CALLS, CALLS, str(BROKEN).replace("'", '"'))]
    lost = CodeReward(name="lost", image="none-such", attempts=2)
    slow = AsyncCodeReward(name="slow", timeout=2)
    t = trainer([code_reward, lost, slow], rows, tokenizer, tmp_path)
    completions = [ADD, SUB, block("import time\ndef add(a, b):\n    time.sleep(5)\n    return a + b"), ADD]
    assert rewards(t, rows, completions) == [[1, 0.5, 1, None], [None] * 4, [1, 0.5, None, None]]
    logged = {k: v for k, v in t._pending_metrics.items() if v != [0.0]}
    assert logged == {"code_reward/broken": [1.0], "lost/unknown": [4.0], "slow/unknown": [1.0], "slow/broken": [1.0]}


@pytest.mark.parametrize(
    ("options", "tests", "error"),
    [
        ({"image": "none-such", "attempts": 1}, CALLS, assay.InfraError),
        ({"timeout": 1}, CALLS, assay.Timeout),
        ({}, BROKEN, assay.ProgramError),
    ],
)
def test_infrastructure_raises_if_asked_to(options: dict[str, Any], tests: Any, error: type[Exception]) -> None:
    """For trainers that make a 0 of None."""
    slow = block("import time\ndef add(a, b):\n    time.sleep(9)")
    with pytest.raises(error):
        CodeReward(on_error="raise", **options)(["p"], [slow], tests=[tests])
    with pytest.raises(error):
        asyncio.run(AsyncCodeReward(on_error="raise", **options)(["p"], [slow], tests=[tests]))
    with pytest.raises(ValueError, match="on_error"):
        CodeReward(on_error="ignore")  # type: ignore[arg-type]


def test_a_function_as_trl_wants_it(tokenizer: Any, tmp_path: Path) -> None:
    assert [get_callable_name(f) for f in (code_reward, async_code_reward)] == ["code_reward", "async_code_reward"]
    assert not is_async_callable(code_reward)
    assert is_async_callable(async_code_reward)
    copy = pickle.loads(pickle.dumps(CodeReward("truth", name="mine", reward="pass")))
    assert get_callable_name(copy) == "mine"
    assert copy(["p"], [SUB], truth=[STDIO]) == [0]
    with pytest.raises(TypeError, match="polcy: there is no such option"):
        CodeReward(polcy={})
    rows = [{"prompt": "p", "tests": CALLS}] * 2
    t = trainer([CodeReward("no_such")], rows, tokenizer, tmp_path)
    with pytest.raises(ValueError, match="no_such: the data set has no such column of tests; it has"):
        rewards(t, rows, [ADD] * 2)
    with pytest.raises(ValueError, match="is no JSON"):
        code_reward(["p"], [ADD], tests=["{"])
    assert code_reward([], [], tests=[]) == []


def test_dead_fleet() -> None:
    """It raises: a training run without rewards is of no use."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = {"url": f"http://127.0.0.1:{s.getsockname()[1]}", "patience": 0.5}
    began = time.monotonic()
    with pytest.raises(assay.Unreachable):
        CodeReward(**dead)(["p"] * 3, [ADD] * 3, tests=[CALLS] * 3)
    with pytest.raises(assay.Unreachable):
        asyncio.run(AsyncCodeReward(**dead)(["p"] * 3, [ADD] * 3, tests=[CALLS] * 3))
    assert time.monotonic() - began < 15


def test_cancellation_and_one_job_each(client: assay.Client) -> None:
    label = str(uuid.uuid4())
    slow = block("import time\ndef add(a, b):\n    time.sleep(40)")

    async def canceled() -> None:
        task = asyncio.create_task(AsyncCodeReward(labels={"test": label})(["p"] * 20, [slow] * 20, tests=[CALLS] * 20))
        await asyncio.sleep(2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(canceled())
    end = time.monotonic() + 20
    while True:
        jobs = client.api.list_jobs(label=[f"test={label}"]).jobs
        if len(jobs) == 20 and all(j.outcome == "canceled" for j in jobs):
            break
        assert time.monotonic() < end, [(j.state, j.outcome) for j in jobs]
        time.sleep(0.2)
    assert len({j.batch_id for j in jobs}) <= 3, (
        "what comes within a moment goes together; a busy machine may see more of them"
    )
