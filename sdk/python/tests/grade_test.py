"""Solutions, graded."""

from __future__ import annotations

import json
import time
from pathlib import Path

import httpx
import pytest

import assay

DATA = Path(__file__).resolve().parents[3] / "examples" / "humaneval"
CASES = {"function": "add", "cases": [{"args": [1, 2], "expected": 3}, {"args": [5, 0], "expected": 5}]}


def add(body: str) -> str:
    return f"def add(a, b):\n    {body}\n"


def test_humaneval(client: assay.Client) -> None:
    """The reference solution and a wrong one of each of 164 problems: every reward is right."""
    problems = [json.loads(line) for line in (DATA / "humaneval.jsonl").read_text().splitlines()]
    wrong = [json.loads(line)["solution"] for line in (DATA / "wrong.jsonl").read_text().splitlines()]
    solutions, tests, labels, want = [], [], [], []
    for p, bad in zip(problems, wrong):
        for body, reward in ((p["canonical_solution"], 1.0), (bad, 0.0)):
            solutions.append(p["prompt"] + body)
            tests.append({"setup": p["prompt"], "function": p["entry_point"], "check": p["test"]})
            labels.append({"problem": p["task_id"]})
            want.append(reward)
    rewards = client.grade(solutions, tests, labels=labels, reward="pass", progress="HumanEval")
    assert len(rewards) == 328
    assert rewards == want
    assert (rewards.infra, rewards.broken, rewards.mean) == (0, 0, 0.5)
    assert rewards.pass_at_k(1) == 0.5
    assert rewards.pass_at_k(2) == 1.0
    assert all(c == {"succeeded": 1, "failed": 1} for c in rewards.outcomes("problem").values())


def test_rewards(client: assay.Client) -> None:
    solutions = [
        add("return a + b"),
        add("return a - b"),
        add("return 3"),
        add("while True: pass"),
        "def add(: x",
        "x = 1",
    ]
    rewards = client.grade(solutions, CASES, policy={"wall": "2s"})
    assert rewards == [1.0, 0.5, 0.5, 0.0, 0.0, 0.0]
    assert client.grade(solutions[:3], CASES, reward="pass") == [1.0, 0.0, 0.0]
    assert client.grade(solutions[:2], CASES, reward=lambda r: r.record.tests.passed * 10) == [20.0, 10.0]
    assert rewards.infra == rewards.retried == 0
    assert sum(rewards.failures().values()) == 5
    assert list(rewards.to_pandas()["reward"]) == rewards
    assert client.grade([], CASES) == []


def test_tests_that_fail_by_themselves_are_no_reward(client: assay.Client) -> None:
    broken = {
        "function": "add",
        "check": "def check(candidate):\n    import no_such_module\n    assert candidate(1, 2) == 3\n",
    }
    solutions = [add("return a + b")] * 2
    rewards = client.grade(solutions, [CASES, broken], on_error="none")
    assert rewards == [1.0, None]
    assert (rewards.broken, rewards.infra, rewards.retried) == (1, 0, 0)
    with pytest.raises(assay.ProgramError, match="check_error") as e:
        client.grade(solutions, [CASES, broken])
    assert not isinstance(e.value, assay.InfraError)


def test_infrastructure_is_no_reward(client: assay.Client) -> None:
    """A solution that could not run is tried again, and then None or raised, but never 0."""
    rewards = client.grade([add("return a + b")], CASES, image="none-such", attempts=2, on_error="none")
    assert rewards == [None]
    assert (rewards.infra, rewards.broken, rewards.retried) == (1, 0, 1)
    with pytest.raises(assay.InfraError, match="setup_error"):
        client.grade([add("return a + b")], CASES, image="none-such", attempts=1)


def test_one_deadline_for_all(client: assay.Client) -> None:
    slow = {"function": "add", "cases": [{"args": [1, 2], "expected": 3}]}
    solutions = [add("return a + b"), add("import time; time.sleep(20)")]
    began = time.monotonic()
    rewards = client.grade(solutions, slow, timeout=4, on_error="none")
    assert rewards == [1.0, None]
    assert time.monotonic() - began < 12
    with pytest.raises(assay.Timeout):
        client.grade(solutions, slow, timeout=1)


def test_lost_jobs_are_run_again() -> None:
    """Two of three are lost, then one, then none; an outcome that is not known yet counts as lost."""
    rounds: list[list[dict[str, object]]] = []

    def handler(request: httpx.Request) -> httpx.Response:
        body = request.read()
        if request.url.path == "/v1/batches":
            rounds.append([json.loads(line) for line in body.splitlines()])
            return httpx.Response(
                201, json={"id": str(len(rounds)), "total": len(rounds[-1]), "counts": {}, "outcomes": {}}
            )
        if request.url.path.endswith("/results"):
            outcomes = [["lost", "succeeded", "of_a_newer_server"], ["succeeded", "lost"], ["failed"]][len(rounds) - 1]
            scores = {"succeeded": {"score": 1}, "failed": {"score": 0.25}}
            lines = [
                json.dumps({"id": "j", "outcome": o, "labels": job["labels"], "tests": scores.get(o)})
                for o, job in zip(outcomes, rounds[-1])
            ]
            headers = {"Assay-Cursor": "9", "Assay-Complete": "true"}
            return httpx.Response(200, headers=headers, text="\n".join(lines) + "\n")
        return httpx.Response(200, json={})

    c = assay.Client("http://fleet.test", transport=httpx.MockTransport(handler))
    rewards = c.grade(["a", "b", "c"], CASES)
    assert rewards == [1, 1, 0.25]
    assert [len(r) for r in rounds] == [3, 2, 1]
    assert (rewards.retried, rewards.infra) == (3, 0)


def test_pass_at_k() -> None:
    assert assay.pass_at_k(10, 0, 5) == 0
    assert assay.pass_at_k(10, 10, 1) == 1
    assert assay.pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert assay.pass_at_k(5, 2, 2) == pytest.approx(1 - 3 / 10)
    for bad in ((5, 2, 6), (5, 2, 0), (5, 6, 1), (0, 0, 1)):
        with pytest.raises(ValueError):
            assay.pass_at_k(*bad)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tests": [CASES]}, "tests: there are 1 for 2"),
        ({"labels": [{}]}, "labels: there are 1 for 2"),
        ({"on_error": "ignore"}, "on_error"),
        ({"attempts": 0}, "attempts"),
        ({"reward": "best"}, "reward"),
        ({"timeout": -1}, "timeout"),
        ({"key": ""}, "key"),
        ({"tests": {"function": "add"}}, "tests"),
        ({"solutions": ["", 7]}, "number 1"),
    ],
)
def test_bad_arguments(client: assay.Client, options: dict[str, object], match: str) -> None:
    given = {"solutions": ["x = 1"] * 2, "tests": CASES, **options}
    with pytest.raises((ValueError, TypeError, assay.InvalidError), match=match):
        client.grade(**given)  # type: ignore[arg-type]


def test_shared_process_is_marked(client: assay.Client) -> None:
    """A check that needs the process of its solution can have it, and its result says so."""
    check = "from unittest.mock import patch\ndef check(c):\n    with patch('builtins.input', lambda: '4'): c()\n"
    rewards = client.grade(["def f(): return int(input()) * 2"], {"function": "f", "check": check}, process="shared")
    assert list(rewards) == [1.0]
    result = rewards.results[0]
    assert result is not None
    tests = result.record.tests
    assert tests is not None
    assert tests.forgeable


def test_case_wall_limits_each_case(client: assay.Client) -> None:
    """The default of grade is for cases without a wall and for tests without a case_wall."""
    solution = "def f(x):\n    while x: pass\n    return x\n"
    cases = [{"args": [1], "expected": 1}, {"args": [0], "expected": 0, "wall": "3s"}, {"args": [0], "expected": 0}]
    tests = [{"function": "f", "cases": cases}, {"function": "f", "cases": cases, "case_wall": "1s"}]
    rewards = client.grade([solution] * 2, tests, case_wall=0.5)
    limits = [[c.limits.wall for c in r.record.tests.cases] for r in rewards.results]
    assert limits == [["500ms", "3s", "500ms"], ["1s", "3s", "1s"]]
    assert rewards == [2 / 3] * 2
