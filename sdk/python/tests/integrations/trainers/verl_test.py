"""verl: its reward loop, its reward managers and its way to load a function from its configuration, over a fleet."""

from __future__ import annotations

import asyncio
import socket
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import verl
from omegaconf import DictConfig, OmegaConf
from samples import ASSERTS, CALLS, SAMPLES, STDIO, Sample, block
from transformers import PreTrainedTokenizerFast
from verl import DataProto
from verl.experimental.reward_loop import RewardLoopWorker
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.trainer.ppo.reward import get_custom_reward_fn
from verl.utils.reward_score import prime_code
from verl.workers.reward_manager import BatchRewardManager, NaiveRewardManager, PrimeRewardManager

import assay
from assay.integrations import verl as adapter

REWARD = Path(verl.__file__).parent / "trainer" / "config" / "reward" / "reward.yaml"
ADD = block("def add(a, b):\n    return a + b")
BROKEN = {"function": "add", "check": "def test_it():\n    import no_such_module\n    assert add(1, 2) == 3\n"}


@pytest.fixture(autouse=True)
def environment(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", url)


@pytest.fixture
def label() -> str:
    return str(uuid.uuid4())


def config(tokenizer_path: Path, manager: str = "naive", name: str = "compute_score", **options: Any) -> DictConfig:
    """verl's own defaults for rewards, with what a user sets."""
    reward = OmegaConf.load(REWARD)
    ours = {"path": "pkg://assay.integrations.verl", "name": name, "reward_kwargs": options}
    more = {"custom_reward_function": ours, "reward_manager": {"name": manager}}
    model = {"path": str(tokenizer_path), "tokenizer_path": None}
    return OmegaConf.create({"reward": OmegaConf.merge(reward, more), "actor_rollout_ref": {"model": model}})


def proto(tokenizer: PreTrainedTokenizerFast, samples: list[Sample]) -> DataProto:
    """A batch as it comes from a rollout."""
    answers = [tokenizer.encode(s.answer, add_special_tokens=False) for s in samples]
    length = max(1, *map(len, answers))
    rows = [a + [0] * (length - len(a)) for a in answers]
    mask = [[1, 1] + [1] * len(a) + [0] * (length - len(a)) for a in answers]
    tensors = {"prompts": torch.ones(len(samples), 2, dtype=torch.long), "responses": torch.tensor(rows)}
    columns = {
        "data_source": ["codecontests"] * len(samples),
        "reward_model": [{"ground_truth": s.truth} for s in samples],
        "extra_info": [{} for _ in samples],
    }
    arrays = {k: np.array([*v, None], dtype=object)[:-1] for k, v in columns.items()}
    return DataProto.from_dict({**tensors, "attention_mask": torch.tensor(mask)}, non_tensors=arrays)


def score(c: DictConfig, data: DataProto) -> list[dict[str, Any]]:
    """The reward loop's results for a batch."""

    async def main() -> list[dict[str, Any]]:
        return await RewardLoopWorker(c).compute_score_batch(data)

    return asyncio.run(main())


ALL = [s for s in SAMPLES if s.answer]  # a response has one token at least


@pytest.mark.parametrize(
    ("manager", "name"),
    [
        ("naive", "compute_score"),
        ("naive", "compute_score_sync"),
        ("dapo", "compute_score"),
        ("rate_limited", "compute_score"),
    ],
)
def test_reward_loop(manager: str, name: str, tokenizer: Any, tokenizer_path: Path) -> None:
    data = proto(tokenizer, ALL)
    c = config(tokenizer_path, manager, name)
    done = score(c, data)
    assert {s.name: d["reward_score"] for s, d in zip(ALL, done)} == {s.name: s.score for s in ALL}
    info = [d["reward_extra_info"] for d in done]
    assert {frozenset(i) for i in info} == {frozenset(("score", "acc", "passed", "total", "outcome", "job"))}
    assert [i["acc"] for i in info] == [float(s.score == 1) for s in ALL]
    scores = get_reward_manager_cls(manager).assemble_rm_scores(data, [d["reward_score"] for d in done])
    assert scores.sum(dim=1).tolist() == [s.score for s in ALL]


def test_as_verl_scores_itself() -> None:
    """The same score as verl's own scorer, except where that is wrong."""
    alike = [s for s in SAMPLES if s.alike]
    theirs = {s.name: float(prime_code.compute_score(s.answer, s.truth, continuous=True)[0]) for s in alike}
    assert theirs == {s.name: s.score for s in alike}


def test_one_job_an_answer_and_together(client: assay.Client, label: str, tokenizer: Any, tokenizer_path: Path) -> None:
    data = proto(tokenizer, [s for s in ALL if s.name.startswith("stdio")] * 10)
    score(config(tokenizer_path, labels={"test": label}), data)
    jobs = client.api.list_jobs(label=[f"test={label}"], limit=200).jobs
    assert len(jobs) == len(data)
    assert len({j.batch_id for j in jobs}) < len(jobs) / 5


def test_options_of_the_configuration(client: assay.Client, label: str, tokenizer_path: Path) -> None:
    options = {
        "reward": "pass", "first": 1, "compare": "floats", "tolerance": 0.5, "case_wall": "2s", "detail": False,
        "policy": {"wall": "7s"}, "labels": {"test": label},
    }  # fmt: skip
    function = get_custom_reward_fn(config(tokenizer_path, **options))
    assert function
    code = block("a, b = map(int, input().split())\nprint(a + b + 0.4 if a == 1 else 'no')")
    assert asyncio.run(function(data_source="", solution_str=code, ground_truth=STDIO, extra_info={})) == 1.0
    (job,) = client.api.list_jobs(label=[f"test={label}"]).jobs
    spec = client.api.get_job(job.id).spec
    assert spec
    assert spec.policy.wall == "7s"
    assert spec.policy.memory == "1Gi"
    assert [(c.wall, c.compare) for c in spec.program.tests.stdio] == [("2s", "floats")]
    unknown = get_custom_reward_fn(config(tokenizer_path, memory_limit_mb=3))
    with pytest.raises(TypeError, match="memory_limit_mb: there is no such option"):
        asyncio.run(unknown(data_source="", solution_str=code, ground_truth=STDIO))
    with pytest.raises(ValueError, match="reward"):
        adapter.compute_score_sync("", code, STDIO, reward="best")


def test_managers_of_old(tokenizer: Any) -> None:
    """The managers that verl still has for code that calls them directly."""
    some = [s for s in ALL if s.name in ("calls", "calls half", "asserts", "stdio wrong")]
    want = [s.score for s in some]
    batch = BatchRewardManager(tokenizer, 0, adapter.compute_score_batch, reward="score")
    naive = NaiveRewardManager(tokenizer, 0, adapter.compute_score_sync)
    for manager in (batch, naive):
        given = manager(proto(tokenizer, some), return_dict=True)
        assert given["reward_tensor"].sum(dim=1).tolist() == want
        assert given["reward_extra_info"]["acc"] == [float(w == 1) for w in want]
    assert PrimeRewardManager(tokenizer, 0, plain_score)(proto(tokenizer, some)).sum(dim=1).tolist() == want
    assert adapter.compute_score_batch([], [], []) == []


def plain_score(task: str, completion: str, reference: Any, extra: Any) -> float:
    """prime wants a number, and pickles the function for its processes."""
    return adapter.compute_score_sync(task, completion, reference, extra, detail=False)  # type: ignore[return-value]


def test_infrastructure_is_no_reward(tokenizer: Any, tokenizer_path: Path) -> None:
    """verl's managers pass the error on, and the step ends; only rate_limited turns any error into 0."""
    data = proto(tokenizer, ALL[:1])
    for manager in ("naive", "dapo"):
        with pytest.raises(assay.InfraError, match="setup_error"):
            score(config(tokenizer_path, manager, image="none-such", attempts=2), data)
    (done,) = score(config(tokenizer_path, "rate_limited", image="none-such"), data)
    assert done["reward_score"] == 0
    assert "setup_error" in done["reward_extra_info"]["error"]


def test_it_is_tried_again(client: assay.Client, label: str) -> None:
    with pytest.raises(assay.InfraError):
        adapter.compute_score_sync("", ADD, CALLS, image="none-such", attempts=3, labels={"test": label}, broken=0)
    assert len(client.api.list_jobs(label=[f"test={label}"]).jobs) == 3


@pytest.mark.parametrize(
    ("truth", "error", "match"),
    [
        (BROKEN, assay.ProgramError, "check_error"),
        ("{", ValueError, "is no JSON"),
        (7, ValueError, "is int, and must be"),
        ({}, ValueError, "nothing, and needs inputs"),
        ({"inputs": ["1"], "outputs": []}, ValueError, "1 inputs and 0 outputs"),
        ({"inputs": ["1"], "outputs": [None]}, ValueError, "one is null"),
        ({"inputs": ["x"], "outputs": ["1"], "fn_name": "f"}, ValueError, "number 0 is not one JSON value a line"),
        ({"assert_case": ["assert ("]}, ValueError, "number 0 is no Python"),
        ({"assert_case": ["assert 1 == 1"]}, ValueError, "calls no function"),
        ({**ASSERTS, "outputs": ["1", "2"]}, ValueError, "outputs beside assert_case"),
        ({"function": "add"}, assay.InvalidError, "tests"),
        ({"inputs": ["1" * (9 << 20)], "outputs": ["1"]}, assay.APIError, r"MiB|large|bytes"),
    ],
)
def test_tests_at_fault(truth: Any, error: type[Exception], match: str) -> None:
    """They raise, since no answer can be judged; the user may choose a score for that."""
    with pytest.raises(error, match=match) as e:
        adapter.compute_score_sync("", ADD, truth)
    assert not isinstance(e.value, assay.InfraError)
    done = adapter.compute_score_sync("", ADD, truth, broken=0.25)
    assert isinstance(done, dict)
    assert (done["score"], done["acc"], done["outcome"]) == (0.25, 0, "check_error")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"compare": "loosely"}, "compare"),
        ({"tolerance": 0.1}, "tolerance"),
        ({"case_wall": "soon"}, "duration"),
        ({"case_wall": 9, "policy": {"wall": "5s"}}, "case_wall"),
        ({"first": 0}, "first"),
        ({"attempts": 0}, "attempts"),
        ({"timeout": 0}, "timeout"),
        ({"url": "nowhere"}, "url"),
    ],
)
def test_bad_options(options: dict[str, Any], match: str) -> None:
    """They raise, regardless of broken: the tests are not at fault."""
    with pytest.raises(ValueError, match=match):
        adapter.compute_score_sync("", ADD, STDIO, broken=0, **options)


def test_faults_of_the_configuration_are_not_the_tests() -> None:
    with pytest.raises(assay.InvalidError, match=r"policy|named"):
        adapter.compute_score_sync("", ADD, CALLS, policy="no-such-policy", broken=0)


def test_dead_fleet() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{s.getsockname()[1]}"
    began = time.monotonic()
    for call in (
        lambda: adapter.compute_score_sync("", ADD, CALLS, url=dead, patience=0.5, broken=0),
        lambda: asyncio.run(adapter.compute_score("", ADD, CALLS, url=dead, patience=0.5)),
    ):
        with pytest.raises(assay.Unreachable):
            call()
    assert time.monotonic() - began < 15


def test_time_and_cancellation(client: assay.Client, label: str) -> None:
    """Jobs without a waiting caller are canceled."""
    slow, labels = block("import time\ndef add(a, b):\n    time.sleep(40)"), {"test": label}
    with pytest.raises(assay.Timeout):
        adapter.compute_score_sync("", slow, CALLS, timeout=1, labels=labels)

    async def canceled() -> None:
        task = asyncio.create_task(adapter.compute_score("", slow, CALLS, labels=labels))
        await asyncio.sleep(1.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(assay.Timeout):
            await adapter.compute_score("", slow, CALLS, timeout=1, labels=labels)

    asyncio.run(canceled())
    with pytest.raises(TypeError):  # one is at fault: the others are canceled
        adapter.compute_score_batch(["x"] * 2, [slow, None], [CALLS] * 2, labels=labels)  # type: ignore[list-item]
    end = time.monotonic() + 20
    while len(jobs := client.api.list_jobs(label=[f"test={label}"]).jobs) < 3 or any(
        j.outcome != "canceled" for j in jobs
    ):
        assert time.monotonic() < end, [(j.state, j.outcome) for j in jobs]
        time.sleep(0.2)
