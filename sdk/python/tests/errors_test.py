"""Errors: the table of the API's errors, and scripted faults."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import pickle
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import assay
from assay._calls import Call
from assay._errors import KINDS, STATUSES
from assay._units import duration, seconds
from fleet import start_fleet, stop_fleet

ROOT = Path(__file__).resolve().parents[3]
TABLE = re.findall(r'"([a-z-]+)", http\.Status(\w+), "', (ROOT / "api" / "problem.go").read_text())
CASES = json.loads((ROOT / "api" / "testdata" / "errors.json").read_text())
PROBLEMS = "https://assay.run/problems/"


def test_every_kind_has_a_class_and_a_case() -> None:
    assert len(TABLE) > 10
    assert {kind for kind, _ in TABLE} == set(KINDS)
    kinds = {c["body"]["type"]: c["python"] for c in CASES if isinstance(c["body"], dict)}
    assert {kind: kinds.get(PROBLEMS + kind) for kind in KINDS} == {k: cls.__name__ for k, cls in KINDS.items()}
    proxies = {c["status"]: c["python"] for c in CASES if c["name"].startswith("a proxy's") and c["status"] in STATUSES}
    assert proxies == {status: cls.__name__ for status, cls in STATUSES.items()}


@pytest.mark.parametrize("case", CASES, ids=[c["name"] for c in CASES])
def test_errors_are_those_of_the_go_client(case: dict[str, Any]) -> None:
    """This client interprets answers like the Go client: the tests of both read one file."""
    body = case["body"] if isinstance(case["body"], str) else json.dumps(case["body"])
    e = client_of(lambda _: httpx.Response(case["status"], headers=case["headers"], text=body), patience=0).raises()
    assert type(e) is getattr(assay, case["python"])
    assert isinstance(e, assay.APIError)
    assert (e.status, e.field, e.line) == (case["status"], case.get("field", ""), case.get("line", 0))
    assert (e.detail, e.request_id) == (case.get("detail", ""), case.get("request_id", ""))
    assert e.retry_after == case.get("retry_after")
    assert e.detail in str(e)
    assert pickle.loads(pickle.dumps(e)).args == e.args


class Scripted:
    """A client whose answers are a test's."""

    def __init__(self, answer, patience: float) -> None:  # type: ignore[no-untyped-def]
        self.requests: list[httpx.Request] = []

        def handler(request: httpx.Request) -> httpx.Response:
            request.read()
            self.requests.append(request)
            return answer(len(self.requests))

        self.client = assay.Client("http://fleet.test", patience=patience, transport=httpx.MockTransport(handler))

    def raises(self) -> assay.APIError:
        with pytest.raises(assay.APIError) as e:
            self.client.api.submit_job({"program": {}})
        return e.value


def client_of(answer, patience: float = 5) -> Scripted:  # type: ignore[no-untyped-def]
    return Scripted(answer, patience)


def problem(status: int, body: dict[str, object], **headers: str) -> httpx.Response:
    return httpx.Response(
        status, headers={"Content-Type": "application/problem+json", **headers}, text=json.dumps(body)
    )


ACCEPTED = {"id": "j", "state": "queued", "url": "/v1/jobs/j"}
BUSY = {"type": "https://assay.run/problems/unavailable", "title": "Busy"}


def test_unknown_outcome_is_resolved_under_the_same_key() -> None:
    def answer(n: int) -> httpx.Response:
        if n == 1:
            raise httpx.ReadError("broken")
        return problem(503, BUSY) if n == 2 else httpx.Response(201, json=ACCEPTED)

    s = client_of(answer)
    assert s.client.api.submit_job({"program": {}}).id == "j"
    assert len(s.requests) == 3
    assert len({r.headers["Idempotency-Key"] for r in s.requests}) == 1
    assert len({r.content for r in s.requests}) == 1


def test_spooled_batch_is_sent_again_whole() -> None:
    def answer(n: int) -> httpx.Response:
        if n == 1:
            raise httpx.WriteError("broken")
        return httpx.Response(201, json={"id": "b", "total": 3, "counts": {}, "outcomes": {}})

    s = client_of(answer)
    assert s.client.submit_batch(["1", "2", "3"]).id == "b"
    assert [len(r.content.splitlines()) for r in s.requests] == [3, 3]


def test_quota_says_when() -> None:
    body = {"type": "https://assay.run/problems/too-many", "title": "Too many", "detail": "10 of 10 sessions"}
    e = client_of(lambda _: problem(429, body, **{"Retry-After": "7"})).raises()
    assert isinstance(e, assay.QuotaError)
    assert e.retry_after == 7
    s = client_of(
        lambda n: problem(429, body, **{"Retry-After": "1"}) if n == 1 else httpx.Response(201, json=ACCEPTED)
    )
    began = time.monotonic()
    s.client.api.submit_job({"program": {}})
    assert 1 <= time.monotonic() - began < 3
    s = client_of(lambda _: problem(429, {**body, "errors": [{"field": "jobs", "problem": "p"}]}))
    s.raises()
    assert len(s.requests) == 1, "one that names a field does not pass by itself"


def test_what_must_not_be_sent_twice_is_not() -> None:
    s = client_of(lambda _: problem(503, BUSY))
    with pytest.raises(assay.UnavailableError):
        s.client.api.reset_session("s")
    assert len(s.requests) == 1


@pytest.mark.parametrize("path", ["/v1/sessions", "/v1/sessions/s/execute", "/v1/sessions/s/fork"])
def test_sessions_and_executions_are_asked_for_again_under_the_same_key(path: str) -> None:
    def answer(n: int) -> httpx.Response:
        if n == 1:
            raise httpx.ReadError("broken")
        return (
            problem(503, BUSY)
            if n == 2
            else problem(409, {"type": "https://assay.run/problems/conflict", "title": "No"})
        )

    s = client_of(answer)
    api = s.client.api
    calls = {
        "/v1/sessions": lambda: api.create_session({}),
        "/v1/sessions/s/execute": lambda: api.execute("s", {"code": "1"}),
        "/v1/sessions/s/fork": lambda: api.fork_session("s"),
    }
    with pytest.raises(assay.ConflictError):
        calls[path]()
    assert [r.url.path for r in s.requests] == [path] * 3
    assert len({r.headers["Idempotency-Key"] for r in s.requests}) == 1


def test_dead_fleet() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    dead = assay.Client(f"http://127.0.0.1:{port}", patience=0.5)
    began = time.monotonic()
    tests = {"function": "f", "cases": [{"args": []}]}
    asynchronous = assay.AsyncClient(f"http://127.0.0.1:{port}", patience=0.5)
    for call in (
        lambda: dead.run("1"),
        lambda: list(dead.map(["1"])),
        lambda: dead.submit("1").result(20),
        lambda: dead.submit_batch(["1"]),
        lambda: list(dead.batch("b").results()),
        lambda: dead.batch("b").wait(),
        lambda: dead.grade(["x = 1"], tests, on_error="none"),
        lambda: asyncio.run(asynchronous.run("1")),
        lambda: asyncio.run(asynchronous.grade(["x = 1"], tests)),
    ):
        with pytest.raises(assay.Unreachable, match=f"127.0.0.1:{port} does not answer"):
            call()
    with pytest.raises((assay.Timeout, assay.Unreachable)):
        dead.run("1", timeout=0.2)
    assert time.monotonic() - began < 30
    dead.close()


@contextmanager
def server(answer: bytes, pieces: int = 1) -> Iterator[str]:
    """A server that sends one answer, piece by piece."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 << 16)
                try:
                    for _ in range(pieces):
                        connection.sendall(answer)
                    connection.recv(1)
                except OSError:
                    pass

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()


def test_silent_fleet_and_a_deadline() -> None:
    with server(b"") as url, assay.Client(url) as c:
        began = time.monotonic()
        with pytest.raises(assay.Timeout):
            c.run("1", timeout=0.5)
        assert time.monotonic() - began < 10


def test_answer_of_4_gib_is_not_held() -> None:
    def answer(_: int) -> httpx.Response:
        def body() -> Iterator[bytes]:
            for _ in range(4096):
                yield b"x" * (1 << 20)

        return httpx.Response(200, content=body())

    with pytest.raises(assay.AnswerTooLarge, match="more than"):
        client_of(answer).client.api.get_job("j")


def test_answer_that_unpacks_to_too_much_is_not_held() -> None:
    packed = gzip.compress(bytes(256 << 20), 1)
    s = client_of(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=packed))
    with pytest.raises(assay.AnswerTooLarge, match="more than"):
        s.client.api.get_job("j")


def test_error_of_4_gib_is_not_held() -> None:
    """Of a download, too, whose answer is not held in memory otherwise."""
    sent = 0

    def answer(_: int) -> httpx.Response:
        def body() -> Iterator[bytes]:
            nonlocal sent
            for _ in range(4096):
                sent += 1
                yield b"x" * (1 << 20)

        return httpx.Response(502, content=body())

    s = client_of(answer, patience=0)
    with pytest.raises(assay.UnavailableError), s.client._transport.open(Call("GET", "/v1/blobs/b")) as response:
        response.read()
    with pytest.raises(assay.AnswerTooLarge):
        s.client.api.get_job("j")
    assert sent < 200


def pages(faults: dict[int, Callable[[], httpx.Response]]) -> assay.Client:
    """A client of a fleet that has four results, two a page, but for the requests that go wrong."""
    asked = 0

    def handler(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        request.read()
        if request.method == "POST":
            return httpx.Response(201, json={"id": "b", "total": 4, "counts": {}, "outcomes": {}})
        if not request.url.path.endswith("/results"):
            return httpx.Response(200, json={})
        asked += 1
        if fault := faults.get(asked, faults.get(0) if asked > 1 else None):
            return fault()
        at = int(request.url.params["after"])
        page = [{"id": "j", "outcome": "succeeded", "labels": {"assay.position": str(i)}} for i in (at, at + 1)]
        headers = {"Assay-Cursor": str(at + 2), "Assay-Complete": "true" if at == 2 else "false"}
        return httpx.Response(200, headers=headers, text="".join(json.dumps(line) + "\n" for line in page))

    return assay.Client("http://fleet.test", patience=3, transport=httpx.MockTransport(handler))


def test_recorded_results_come_once_each_when_the_fleet_was_away() -> None:
    def broken() -> httpx.Response:
        raise httpx.ReadError("broken")

    faults = {1: broken, 2: lambda: problem(503, BUSY), 4: lambda: httpx.Response(200, content=cut()), 5: broken}
    assert [r.index for r in pages(faults).map(["1"] * 4)] == [0, 1, 2, 3]


def test_recorded_results_come_before_the_error_of_a_fleet_that_stays_away() -> None:
    def away() -> httpx.Response:
        raise httpx.ConnectError("refused")

    seen: list[assay.Result] = []
    with pytest.raises(assay.Unreachable):
        seen.extend(pages({0: away}).map(["1"] * 4))
    assert [r.index for r in seen] == [0, 1]


def cut() -> Iterator[bytes]:
    yield b'{"id": "j2", "outco'
    raise httpx.RemoteProtocolError("cut short")


def test_answer_that_is_no_json() -> None:
    s = client_of(lambda _: httpx.Response(200, text="<html>"))
    with pytest.raises(assay.AssayError, match="not JSON"):
        s.client.api.get_job("j")


def test_token(url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("ASSAY_TOKEN", "of-the-environment")
    monkeypatch.setenv("ASSAY_URL", "http://of.the.environment:1/")
    assert assay.Client().url == "http://of.the.environment:1"
    assert assay.Client("http://x").url == "http://x"
    with caplog.at_level(logging.DEBUG):
        c = assay.Client(url, "secret-token")
        with pytest.raises(assay.AuthError, match="unknown"):
            c.run("1")
    told = caplog.text + repr(c) + repr(c.__dict__) + repr(c._transport.config)
    assert "secret-token" not in told
    for bad in ("a b", "a\nb", "ü"):
        with pytest.raises(ValueError, match="token"):
            assay.Client(token=bad)
    for bad in ("http://x/v1", "http://x/v1/", "localhost:8080", "ftp://x", "http://", "http://u:p@x", "http://x?y=1"):
        with pytest.raises(ValueError, match="url"):
            assay.Client(bad)
    monkeypatch.setenv("ASSAY_PATIENCE", "soon")
    with pytest.raises(ValueError, match="duration"):
        assay.Client()


@pytest.mark.fleet
def test_fleet_with_tokens(tmp_path: Path) -> None:
    """`assay dev` is ready with tokens in its environment, too, and each client has the identity of its token."""
    tmp_path.chmod(0o755)
    fleet, url = start_fleet(tmp_path / "fleet", {"ASSAY_TOKENS": "one=research,two=product", "ASSAY_RUNTIME": "noop"})
    try:
        assert assay.Client(url, "one").submit_batch(["1"], name="of-research").id
        assert [b.name for b in assay.Client(url, "one").batches()] == ["of-research"]
        assert list(assay.Client(url, "two").batches()) == []
        for token in ("", "three"):
            with pytest.raises(assay.AuthError) as e:
                assay.Client(url, token).run("1")
            assert e.value.status == 401
        with pytest.raises(assay.AuthError):
            list(assay.Client(url, "three").map(["1"]))
        with pytest.raises(assay.AuthError):
            assay.Client(url, "three").grade(["x = 1"], {"function": "f", "cases": [{}]}, on_error="none")
        assert isinstance(assay.Client(url, "three").submit("1").exception(30), assay.AuthError)
        with pytest.raises(assay.RefusedError):
            assay.Client(url, "one").api.get_version()
    finally:
        stop_fleet(fleet)


def test_slow_answer_and_a_deadline() -> None:
    def answer(_: int) -> httpx.Response:
        def body() -> Iterator[bytes]:
            for _ in range(100):
                time.sleep(0.1)
                yield b" "

        return httpx.Response(200, content=body())

    began = time.monotonic()
    with pytest.raises(assay.Timeout):
        client_of(answer).client.run("1", timeout=0.5)
    assert time.monotonic() - began < 8


def test_durations() -> None:
    for text, number in (("1.5s", 1.5), ("2m", 120), ("1h30m", 5400), ("100ms", 0.1), ("0", 0), ("-1s", -1)):
        assert seconds(text) == pytest.approx(number)
    assert [duration(v) for v in (1.5, 60, 0.001, "2m")] == ["1.5s", "60s", "0.001s", "2m"]
    for bad in ("", "1", "s", "1.5.5s", "1s ", "one"):
        with pytest.raises(ValueError):
            seconds(bad)
