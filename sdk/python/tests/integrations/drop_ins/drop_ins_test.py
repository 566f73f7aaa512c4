"""Clients of SandboxFusion, verl's reward function and SandboxFusion's own, over a fleet that answers in its format."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import sandbox_fusion as official

from fleet import kill_worker, start_fleet, stop_fleet

SAMPLES = 200


def reward_score() -> ModuleType:
    """verl.utils.reward_score, without the packages that verl and verl.utils import for everything else."""
    found = importlib.util.find_spec("verl")
    assert found
    assert found.submodule_search_locations
    root = Path(found.submodule_search_locations[0])
    for name, place in (("verl", root), ("verl.utils", root / "utils")):
        package = ModuleType(name)
        package.__path__ = [str(place)]
        sys.modules[name] = package
    return importlib.import_module("verl.utils.reward_score")


score = reward_score().default_compute_score


class Fleet:
    """A fleet of these tests' own: they kill its worker."""

    def __init__(self, directory: Path) -> None:
        env = {"ASSAY_DROP_INS": "sandboxfusion,sandboxfusion-at-root"}
        self.process, self.address = start_fleet(directory / "fleet", env)


@pytest.fixture(scope="module")
def fleet() -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="assay-drop-ins-") as directory:
        Path(directory).chmod(0o755)
        running = Fleet(Path(directory))
        yield running
        stop_fleet(running.process)


class Sample:
    """A policy's answer to a problem, and its right reward."""

    def __init__(self, code: str, reward: float, cases: list[tuple[str, str]], fn_name: str | None = None) -> None:
        self.answer = f"Here it is.\n```python\n{code}\n```\n" if code else "I do not know."
        self.reward = reward
        self.truth = {"inputs": [c[0] for c in cases], "outputs": [c[1] for c in cases]}
        if fn_name:
            self.truth["fn_name"] = fn_name

    def score(self, url: str, semaphore: threading.Semaphore) -> float:
        return score(
            "codecontests",
            self.answer,
            json.dumps(self.truth),
            sandbox_fusion_url=url,
            concurrent_semaphore=semaphore,
            memory_limit_mb=256,
        )


def sample(i: int) -> Sample:
    """The i-th of them. Each has inputs of its own, so that no answer can be another's."""
    cases = [(f"{i} {k}\n", f"{i + k}\n") for k in range(3)]
    kinds: list[Callable[[], Sample]] = [
        lambda: Sample("a, b = map(int, input().split())\nprint(a + b)", 1.0, cases),
        lambda: Sample("a, b = map(int, input().split())\nprint(a + b if b != 1 else 'x')", 2 / 3, cases),
        lambda: Sample("raise ValueError('no')", 0.0, cases),
        lambda: Sample("import sys\nprint(sum(map(int, sys.stdin.read().split())))\nsys.exit(3)", 0.0, cases),
        lambda: Sample(
            "class Solution:\n    def add(self, a, b):\n        return a + b",
            1.0,
            [(f"{i}\n{k}", str(i + k)) for k in range(3)],
            "add",
        ),
        lambda: Sample("print(", 0.0, cases),
        lambda: Sample("", 0.0, cases),
        lambda: Sample(f"print('{i}' * 20000)", 1.0, [("", str(i) * 20000)]),
    ]
    return kinds[i % len(kinds)]()


def rewards(fleet: Fleet, samples: list[Sample], meanwhile: Callable[[], None] = lambda: None) -> list[float]:
    """verl's rewards for them, with some requests at a time, as in its reward managers."""
    semaphore = threading.Semaphore(64)
    url = fleet.address + "/sandboxfusion/run_code"
    with ThreadPoolExecutor(16) as pool:
        given = [pool.submit(s.score, url, semaphore) for s in samples]
        meanwhile()
        return [g.result() for g in given]


@pytest.mark.fleet
def test_verl_gives_the_right_rewards(fleet: Fleet) -> None:
    samples = [sample(i) for i in range(SAMPLES)]
    assert rewards(fleet, samples) == pytest.approx([s.reward for s in samples])


@pytest.mark.fleet
def test_a_killed_worker_changes_no_reward(fleet: Fleet) -> None:
    samples = [sample(i) for i in range(SAMPLES)]
    slow = "import time\ntime.sleep(1)\n"  # so that it is in the middle of something
    for s in samples:
        s.answer = s.answer.replace("```python\n", "```python\n" + slow)

    def kill() -> None:
        time.sleep(3)
        kill_worker(fleet.process)

    assert rewards(fleet, samples, kill) == pytest.approx([s.reward for s in samples])


@pytest.mark.fleet
def test_a_program_that_does_not_end_is_a_time_limit(fleet: Fleet) -> None:
    from verl.utils.reward_score.sandbox_fusion.utils import check_correctness

    cases = {"inputs": ["1", "2"], "outputs": ["1", "2"]}
    code = "n = input()\nwhile n == '2': pass\nprint(n)"
    results, about = check_correctness(fleet.address + "/run_code", cases, code, timeout=1, memory_limit_mb=256)
    assert results == [True, -3], about
    assert about[1]["status"] == "timeout"


@pytest.mark.fleet
def test_the_official_client(fleet: Fleet) -> None:
    def run(**request: object) -> official.RunCodeResponse:
        return official.run_code(official.RunCodeRequest(**request), endpoint=fleet.address, client_timeout=60)

    r = run(code="print(123)", language="python", run_timeout=5)
    assert (r.status, r.run_result.stdout) == (official.RunStatus.Success, "123\n")
    r = run(code="import time; time.sleep(2)", language="python", run_timeout=0.1)
    assert r.run_result.status == official.CommandRunStatus.TimeLimitExceeded
    mapping = official.SummaryMapping(RunFailed="failed", RunTimeout="timeout")
    assert official.summary_run_code_result(r, mapping) == "timeout"
    r = run(code="x = []\nwhile True: x.append(bytes(1 << 20))", language="python")
    assert official.summary_run_code_result(r, mapping) == "failed"
    secret = base64.b64encode(b"secret").decode()
    r = run(
        code="open('out/b.txt', 'w').write(open('a/in.txt').read()[::-1])",
        language="python",
        files={"a/in.txt": secret, "out/here": secret},
        fetch_files=["out/b.txt", "gone"],
    )
    assert {name: base64.b64decode(text) for name, text in r.files.items()} == {"out/b.txt": b"terces"}
    r = run(code="read x; echo $x; exit 3", stdin="hello", language="bash")
    assert (r.status, r.run_result.stdout, r.run_result.return_code) == (official.RunStatus.Failed, "hello\n", 3)


@pytest.mark.fleet
def test_the_official_client_and_notebooks(fleet: Fleet) -> None:
    request = official.RunJupyterRequest(
        cells=[
            'a = "hello"',
            "a",
            "import sys\n_ = sys.stderr.write('oops')",
            "assert False",
            "print(a, open('in.txt').read())",
            "open('out.txt', 'w').write(a)",
        ],
        files={"in.txt": base64.b64encode(b"there").decode()},
        fetch_files=["out.txt", "gone"],
        total_timeout=20,
    )
    r = official.run_jupyter(request, endpoint=fleet.address, client_timeout=60)
    assert r.status == official.RunStatus.Success
    assert r.cells[1].display == [{"text/plain": "'hello'"}]
    assert r.cells[2].stderr == "oops"
    assert (r.cells[3].error[0]["ename"], r.cells[3].stderr) == ("AssertionError", "")
    assert r.cells[4].stdout == "hello there\n"
    assert {name: base64.b64decode(text) for name, text in r.files.items()} == {"out.txt": b"hello"}
    slow = official.RunJupyterRequest(cells=["print(1)", "import time\ntime.sleep(60)", "print(2)"], total_timeout=1)
    r = official.run_jupyter(slow, endpoint=fleet.address, client_timeout=60)
    assert (r.status, r.driver.status, len(r.cells)) == (
        official.RunStatus.Failed,
        official.CommandRunStatus.TimeLimitExceeded,
        2,
    )
