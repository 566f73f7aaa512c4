"""Wrong use of the client: each error names the argument, the value and a remedy, and nothing is sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import assay
from assay._code import SETUP

CASES = {"function": "f", "cases": [{"args": [1], "expected": 2}]}


def silent() -> assay.Client:
    """A client whose fleet must not be asked."""

    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.method} {request.url} was sent")

    return assay.Client("http://fleet.test", transport=httpx.MockTransport(handler))


def silent_async() -> assay.AsyncClient:
    def handler(request: httpx.Request) -> httpx.Response:
        raise AssertionError(f"{request.method} {request.url} was sent")

    return assay.AsyncClient("http://fleet.test", transport=httpx.MockTransport(handler))


WRONG: dict[str, tuple[Callable[[Any], Any], tuple[str, ...]]] = {
    "one solution": (lambda c: c.grade("def f(x): return 2", CASES), ("solutions: is str", "[code]")),
    "bytes as solutions": (lambda c: c.grade(b"def f", CASES), ("solutions: is bytes", "must be a list")),
    "a dict as solutions": (lambda c: c.grade({"a": "x = 1"}, CASES), ("solutions: is dict", "must be a list")),
    "a solution that is None": (lambda c: c.grade(["x = 1", None], CASES), ("solutions: number 1 is NoneType",)),
    "tests as text": (lambda c: c.grade(["x = 1"], "assert f(1) == 2"), ("tests: is str", '"function"')),
    "a list of tests as text": (lambda c: c.grade(["x"], ["assert f()"]), ("tests[0]: is str", "check")),
    "labels as text": (lambda c: c.grade(["x = 1"], CASES, labels="a"), ("labels: is str", "one dict for all")),
    "a label as text": (lambda c: c.grade(["x = 1"], CASES, labels=["a"]), ("labels[0]: is str", "dict such as")),
    "a label that is a list": (lambda c: c.grade(["x"], CASES, labels={"a": [1]}), ("labels['a']: is list",)),
    "a label that is None": (lambda c: c.run("1", labels={"a": None}), ("labels['a']: is NoneType", "number")),
    "a label with a number as key": (lambda c: c.run("1", labels={1: "a"}), ("labels: the key 1 is int",)),
    "labels of a whole job": (
        lambda c: c.run({"program": {"python": {"code": "1"}}, "labels": {"a": []}}),
        ("labels['a']: is list",),
    ),
    "a timeout in words": (lambda c: c.grade(["x"], CASES, timeout="5 s"), ("timeout: '5 s'", "ms, s, m and h")),
    "a timeout in days": (lambda c: c.run("1", timeout="1d"), ("timeout: '1d'", "ms, s, m and h")),
    "a negative timeout": (lambda c: c.run("1", timeout="-1s"), ("timeout: must be positive",)),
    "a timeout that is a list": (lambda c: c.run("1", timeout=[5]), ("timeout: is list", '"1.5s"')),
    "a case_wall in words": (lambda c: c.grade(["x"], CASES, case_wall="2sec"), ("case_wall: '2sec'", "units")),
    "variables as text": (lambda c: c.run("1", variables="x"), ("variables: is str", '{"x": 1}')),
    "a variable that cannot be sent": (lambda c: c.run("1", variables={"x": object()}), ('variables["x"]', "object")),
    "an array of objects": (
        lambda c: c.run("1", variables={"x": np.array([object()])}),
        ('variables["x"]', "tolist()"),
    ),
    "files as a list": (lambda c: c.run("1", files=["a.txt"]), ("files: is list", "/workspace/in.txt")),
    "a relative file": (lambda c: c.run("1", files={"a.txt": "x"}), ("'a.txt'", "absolute path", "/workspace/in.txt")),
    "a file that is a number": (lambda c: c.run("1", files={"/a": 1}), ("'/a' is int", "pathlib.Path")),
    "a policy that is a list": (lambda c: c.run("1", policy=["64Mi"]), ("policy: is list", '{"wall": "10s"}')),
    "an image that is a list": (lambda c: c.run("1", image=["python"]), ("image: is list", "must be str")),
    "stdin as bytes": (lambda c: c.run("1", stdin=b"x"), ("stdin: is bytes", "must be str")),
    "a spec as text": (lambda c: c.run("1", spec="priority"), ("spec: is str", "priority")),
    "a function": (lambda c: c.run(print), ("a function cannot be sent", "source")),
    "a command with a number": (lambda c: c.run(["sleep", 5]), ("word 1 is int",)),
    "a program as items": (lambda c: c.map("print(1)"), ("items: is str", "use run")),
    "a job as items": (lambda c: c.map({"program": {}}), ("items: is dict", "[program]")),
    "a program as a batch": (lambda c: c.submit_batch("print(1)"), ("jobs: is str", "use run")),
    "label caps as a list": (lambda c: c.submit_batch(["1"], label_caps=["a"]), ("label_caps: is list", "dict")),
    "a lease in words": (lambda c: c.submit_batch(["1"], lease="1 min"), ("lease: '1 min'", "units")),
    "fields as text": (lambda c: c.batch("b").results(fields="outcome"), ("fields: is str", '["outcome"]')),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_refused_before_anything_is_sent(name: str) -> None:
    call, words = WRONG[name]
    with pytest.raises((TypeError, ValueError)) as e:
        for _ in call(silent()) or ():  # map raises when its results are read
            pass
    for word in words:
        assert word in str(e.value)


@pytest.mark.parametrize("name", WRONG)
def test_the_asynchronous_client_refuses_the_same(name: str) -> None:
    call, words = WRONG[name]

    async def run() -> None:
        got = call(silent_async())
        if hasattr(got, "__aiter__"):
            async for _ in got:
                pass
        else:
            await got

    with pytest.raises((TypeError, ValueError)) as e:
        asyncio.run(run())
    for word in words:
        assert word in str(e.value)


class Fleet:
    """A fleet that records jobs, and refuses or grades them."""

    def __init__(self, problem: dict[str, Any] | None = None, status: int = 400) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.problem, self.status = problem, status
        self.client = assay.Client("http://fleet.test", patience=0, transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        if request.url.path in ("/v1/batches", "/v1/run"):
            if self.problem is not None:
                headers = {"Content-Type": "application/problem+json"}
                return httpx.Response(self.status, headers=headers, text=json.dumps(self.problem))
            self.jobs = [json.loads(line) for line in body.splitlines()]
            if request.url.path == "/v1/run":
                return httpx.Response(200, json=self.result(self.jobs[0]))
            counts = {"total": len(self.jobs), "counts": {}, "outcomes": {}}
            return httpx.Response(201, json={"id": "b", **counts})
        if request.url.path.endswith("/results"):
            lines = "".join(json.dumps(self.result(j)) + "\n" for j in self.jobs)
            return httpx.Response(200, headers={"Assay-Cursor": "9", "Assay-Complete": "true"}, text=lines)
        return httpx.Response(200, json={})

    @staticmethod
    def result(job: dict[str, Any]) -> dict[str, Any]:
        return {"id": "j", "outcome": "succeeded", "labels": job["labels"], "tests": {"score": 1}}

    def labels(self) -> list[dict[str, str]]:
        return [{k: v for k, v in j["labels"].items() if k != "assay.position"} for j in self.jobs]


def problem(kind: str, detail: str, **error: Any) -> dict[str, Any]:
    return {"type": f"https://assay.run/problems/{kind}", "title": kind, "detail": detail, "errors": [error]}


def test_labels_may_be_numbers_and_one_dict_for_all() -> None:
    fleet = Fleet()
    rewards = fleet.client.grade(["a", "b"], CASES, labels={"problem": 7, "n": np.int64(3)})
    assert fleet.labels() == [{"problem": "7", "n": "3"}] * 2
    assert rewards.labels == [{"problem": "7", "n": "3"}] * 2
    fleet.client.grade(["a", "b"], CASES, labels=[{"problem": 1}, {"problem": 2.5}])
    assert fleet.labels() == [{"problem": "1"}, {"problem": "2.5"}]
    fleet.client.run({"program": {"python": {"code": "1"}}, "labels": {"a": 1}}, labels={"b": 2})
    assert fleet.labels() == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("timeout", [5, 5.0, "5s", "5000ms", timedelta(seconds=5)])
def test_times_are_seconds_durations_or_timedeltas(timeout: Any) -> None:
    fleet = Fleet()
    assert fleet.client.grade(["a"], CASES, timeout=timeout, case_wall=timeout) == [1]
    assert fleet.jobs[0]["program"]["tests"]["case_wall"] in ("5s", "5000ms")
    assert fleet.client.run("1", timeout=timeout).ok
    assert assay.Client("http://fleet.test", patience=timeout).url


def test_variables_and_files_are_common_python_objects(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\xff")
    fleet = Fleet()
    fleet.client.run("x", variables={"x": np.arange(2)}, files={"/workspace/in": tmp_path / "in"})
    assert "$ndarray" in fleet.jobs[0]["program"]["python"]["variables"]["x"]
    assert fleet.jobs[0]["files"] == {"/workspace/in": {"base64": "/w=="}}


def test_errors_of_items_name_no_line() -> None:
    text = "policy.timout: unknown field; did you mean wall?"
    fleet = Fleet(problem("invalid", f"line 1: {text}", field="policy.timout", line=1, problem="unknown field"))
    for call in (
        lambda: fleet.client.grade(["a"], CASES, policy={"timout": "1s"}),
        lambda: list(fleet.client.map(["1"])),
    ):
        with pytest.raises(assay.InvalidError) as e:
            call()
        assert str(e.value) == f"item 0: {text}"
        assert (e.value.line, e.value.field) == (1, "policy.timout")


def test_a_reused_key_is_named_as_the_caller_gave_it() -> None:
    fleet = Fleet(problem("key-used", 'the key "kk#0/1000/0" came with another body'), status=409)
    for call in (
        lambda: fleet.client.grade(["a"], CASES, key="kk"),
        lambda: list(fleet.client.map(["1"], key="kk")),
    ):
        with pytest.raises(assay.KeyUsedError, match=r"^key: 'kk' was used before .* use another key$"):
            call()


def test_a_missing_token_names_the_argument() -> None:
    fleet = Fleet(problem("unauthorized", "the token is unknown here"), status=401)
    with pytest.raises(assay.AuthError, match=r"unknown here.*Client\(token=…\) or ASSAY_TOKEN"):
        fleet.client.run("1")


def test_a_closed_client_refuses_calls() -> None:
    """It sends nothing, until it is entered again; one client may have several with blocks."""
    with silent() as c:
        pass
    with pytest.raises(assay.ClosedError, match="this client is closed: make another"):
        c.run("print(1)")
    with pytest.raises(assay.ClosedError):
        c.submit("print(1)")
    sent = []

    def handler(request: httpx.Request) -> httpx.Response:
        sent.append(request.url.path)
        return httpx.Response(404, json={"code": "not_found", "detail": "no"})

    with assay.Client("http://fleet.test", transport=httpx.MockTransport(handler)) as c:
        pass
    with c, pytest.raises(assay.NotFoundError):
        c.api.get_job("j")
    assert sent


def test_pass_at_k_without_labels_warns() -> None:
    fleet = Fleet()
    with pytest.warns(UserWarning, match="2 of 2 solutions have no label 'problem'.*labels="):
        assert fleet.client.grade(["a", "b"], CASES).pass_at_k(1) == 1
    assert fleet.client.grade(["a", "b"], CASES, labels={"problem": 1}).pass_at_k(1) == 1


def test_code_of_answers() -> None:
    answer = "Here it is:\n```python\ndef f(x):\n    return math.sqrt(x)\n```\nDone."
    fleet = Fleet()
    fleet.client.grade([answer], CASES, fenced=True, implied_imports=True)
    tests = fleet.jobs[0]["program"]["tests"]
    assert tests["code"].lstrip() == "def f(x):\n    return math.sqrt(x)\n"
    assert tests["setup"].startswith(SETUP)
    assert "['f']" in tests["setup"]
    fleet.client.grade([answer], {**CASES, "setup": "LIMIT = 3"}, implied_imports=True)
    tests = fleet.jobs[0]["program"]["tests"]
    assert tests["code"] == answer
    assert tests["setup"].endswith("\nLIMIT = 3")


def test_implied_imports_leave_other_programs_alone() -> None:
    fleet = Fleet()
    stdio = {"stdio": [{"stdin": "1", "stdout": "1"}]}
    future = "from __future__ import annotations\nprint(1)"
    fleet.client.grade([future, "print(1)"], stdio, implied_imports=True)
    assert ["setup" in j["program"]["tests"] for j in fleet.jobs] == [False, True]
    fleet.client.grade(["int main() {}"], stdio, language="cpp", implied_imports=True)
    tests = fleet.jobs[0]["program"]["tests"]
    assert (tests["language"], "setup" in tests) == ("cpp", False)


def test_answers_are_graded(client: assay.Client) -> None:
    answer = "Sure:\n```python\ndef f(x: List[int]) -> float:\n    return 0.1 + sqrt(x[0])\n```"
    tests = {"function": "f", "cases": [{"args": [[4]], "expected": 2.1 + 1e-12}]}
    rewards = client.grade([answer], tests, fenced=True, implied_imports=True, tolerance=1e-9, timeout="60s")
    assert rewards == [1.0]


def test_messages_of_the_fleet(client: assay.Client) -> None:
    for policy, words in (
        ({"timeout": "1s"}, "policy.timeout: unknown field; did you mean wall?"),
        ({"mem": "1Gi"}, "did you mean memory?"),
        ({"wall": "1d"}, "units are ms, s, m and h"),
        ({"network": True}, 'policy.network: must be an object such as {"mode": "open"}, not true or false'),
    ):
        with pytest.raises(assay.InvalidError) as e:
            client.run("1", policy=policy)
        assert words in str(e.value)


def test_exec_takes_a_duration(client: assay.Client) -> None:
    with client.sandbox() as box:
        assert box.exec("sleep 60", timeout="500ms").timed_out
        with pytest.raises(ValueError, match="timeout: '5 s' is not a duration"):
            box.exec("true", timeout="5 s")
