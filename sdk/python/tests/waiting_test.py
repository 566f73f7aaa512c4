"""Jobs that wait: the fleet's reason reaches the caller, and impossible jobs end the call."""

from __future__ import annotations

import json
import time
import warnings
from typing import Any

import httpx
import pytest

import assay
from assay import _waiting

CASES = {"function": "f", "cases": [{"args": [1], "expected": 2}]}
NEEDS = "waits for a worker: no worker is connected with what the job needs (memory 64Gi)"


class Full:
    """A fleet whose jobs wait, for a given number of looks."""

    def __init__(self, waits_for: str, message: str, looks: int = 10**9) -> None:
        self.waits_for, self.message, self.looks = waits_for, message, looks
        self.jobs: list[dict[str, Any]] = []
        self.canceled: list[str] = []
        self.client = assay.Client("http://fleet.test", patience=0, transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        body, path = request.read(), request.url.path
        if path == "/v1/run":
            self.jobs = [json.loads(body)]
            return httpx.Response(202, json={"id": "j", "state": "queued", "url": "/v1/jobs/j"})
        if path == "/v1/batches":
            self.jobs = [json.loads(line) for line in body.splitlines()]
            return httpx.Response(201, json={"id": "b", "total": len(self.jobs), "counts": {}, "outcomes": {}})
        if path.endswith("/cancel"):
            self.canceled.append(path)
            return httpx.Response(200, json={"canceled": 1, "stopping": 0, "id": "b", "total": 1, "counts": {}})
        if path in ("/v1/batches/b", "/v1/batches/b/keepalive"):
            time.sleep(0.02)
            counts = {"finished": 1} if self.looks <= 0 else {"queued": 1}
            return httpx.Response(200, json={"id": "b", "total": 1, "counts": counts, "outcomes": {}, "lease": "60s"})
        if path == "/v1/jobs":
            return httpx.Response(200, json={"jobs": [{"id": "j"}]})
        if path == "/v1/jobs/j":
            self.looks -= 1
            return httpx.Response(200, json={"state": "queued", "waits_for": self.waits_for, "message": self.message})
        time.sleep(0.02)
        result = {"id": "j", "outcome": "succeeded", "labels": self.jobs[0].get("labels", {}), "tests": {"score": 1}}
        if path == "/v1/jobs/j/result":
            return httpx.Response(200, json=result) if self.looks <= 0 else httpx.Response(404, json={})
        done = self.looks <= 0
        headers = {"Assay-Cursor": "9", "Assay-Complete": "true" if done else "false"}
        return httpx.Response(200, headers=headers, text=json.dumps(result) + "\n" if done else "")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("_sync._map", "_sync._run", "_sync._waits", "_async._map", "_async._run", "_async._waits"):
        monkeypatch.setattr(f"assay.{module}.LOOK", 0.05)


@pytest.mark.parametrize("call", ["run", "map", "grade"])
def test_a_job_that_no_worker_can_run_raises(call: str) -> None:
    fleet = Full("needs", NEEDS)
    policy = {"memory": "64Gi"}
    calls = {
        "run": lambda: fleet.client.run("1", policy=policy),
        "map": lambda: list(fleet.client.map(["1"], policy=policy)),
        "grade": lambda: fleet.client.grade(["a"], CASES, policy=policy),
    }
    with pytest.raises(assay.NoWorkerError, match=r"no worker is connected .* \(memory 64Gi\)"):
        calls[call]()
    assert fleet.canceled, "the job stays in no queue"


@pytest.mark.parametrize("call", ["run", "map"])
@pytest.mark.parametrize("on_wait", ["warn", "ignore"])
def test_a_caller_may_wait_for_a_worker(call: str, on_wait: Any) -> None:
    fleet = Full("needs", NEEDS, looks=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if call == "run":
            assert fleet.client.run("1", on_wait=on_wait).ok
        else:
            assert [r.ok for r in fleet.client.map(["1"], on_wait=on_wait)] == [True]
    assert [NEEDS in str(w.message) for w in caught] == ([True] if on_wait == "warn" else [])


@pytest.mark.parametrize("call", ["submit", "wait", "results"])
def test_work_that_is_submitted_warns(call: str) -> None:
    """Its caller may be away, so it stays in the queue."""
    fleet = Full("needs", NEEDS, looks=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if call == "submit":
            assert fleet.client.submit("1").result(10).ok
        elif call == "wait":
            fleet.client.submit_batch(["1"]).wait(10)
        else:
            assert [r.ok for r in fleet.client.submit_batch(["1"]).results()] == [True]
    assert [NEEDS in str(w.message) for w in caught] == [True]
    assert not fleet.canceled


@pytest.mark.parametrize("waits_for", ["worker", "pool", "image", "cores", "slot", "turn", "quota", "paused"])
def test_other_waits_raise_nothing(waits_for: str) -> None:
    assert Full(waits_for, "waits", looks=2).client.run("1").ok


def test_the_progress_has_the_reason(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from assay import _progress

    def absent(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(_progress, "import_module", absent)
    fleet = Full("cores", "waits for cores: 2.0 of 2 are in use", looks=2)
    assert fleet.client.grade(["a"], CASES, progress="grading") == [1]
    assert "grading: 0 of 1; waits for cores: 2.0 of 2 are in use" in capsys.readouterr().err


def test_a_job_of_a_dead_client_expires() -> None:
    fleet = Full("turn", "waits", looks=1)
    fleet.client.run("1", timeout=5)
    assert fleet.jobs[0]["expires_in"] == "65s"
    fleet.client.run("1")
    assert fleet.jobs[0]["expires_in"] == _waiting.LONGEST
    fleet.client.run("1", spec={"expires_in": "1h"})
    assert fleet.jobs[0]["expires_in"] == "1h"


def test_on_wait_is_checked() -> None:
    for call in (
        lambda c: c.run("1", on_wait="no"),
        lambda c: c.map(["1"], on_wait="no"),
        lambda c: c.grade(["1"], CASES, on_wait="no"),
    ):
        with pytest.raises(ValueError, match="on_wait: must be"):
            call(Full("turn", "").client)


def test_the_fleet_knows_that_no_worker_can_run_it(client: assay.Client) -> None:
    for call in (
        lambda: client.run("1", policy={"memory": "1Ti"}),
        lambda: client.grade(["def f(x): return 2"], CASES, policy={"memory": "1Ti"}),
    ):
        began = time.monotonic()
        with pytest.raises(assay.NoWorkerError, match="memory 1Ti"):
            call()
        assert time.monotonic() - began < 10  # two looks, on a busy machine
