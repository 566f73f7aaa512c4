"""Large batches: requests after a broken connection, and failing uploads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import assay

ID = "01a22061-ecb3-7000-af29-44da75557aa1"
JOBS = [{"program": {"python": {"code": f"x = {'y' * (3 << 20)!r}"}}} for _ in range(7)]  # three, three and one


class Uploads:
    """A fleet that accepts one upload. A test may script its answers."""

    def __init__(self, trouble: Callable[[str, int], httpx.Response | None] = lambda what, n: None) -> None:
        self.said: list[str] = []
        self.chunks: dict[int, bytes] = {}
        self.trouble = trouble
        self.client = assay.Client("http://fleet.test", patience=1, transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        request.read()
        what = f"{request.method} {request.url.path.removeprefix('/v1/uploads').removeprefix(f'/{ID}')}".strip()
        self.said.append(what)
        answer = self.trouble(what, self.said.count(what))
        if answer is not None:
            return answer
        if request.method == "PUT":
            assert request.headers["Content-Digest"].startswith("sha-256=:")
            self.chunks[int(request.url.path.rsplit("/", 1)[1])] = request.content
        if what == "POST /seal":
            jobs = sum(len(c.splitlines()) for c in self.chunks.values())
            assert json.loads(request.content) == {"jobs": jobs}
            return httpx.Response(201, json={"id": ID, "total": jobs, "counts": {}, "outcomes": {}})
        return httpx.Response(200, json={"id": ID, "next_chunk": len(self.chunks), "jobs": 0, "sealed": False})


def problem(status: int, kind: str, **more: Any) -> httpx.Response:
    body = {"type": f"https://assay.run/problems/{kind}", "title": kind, "detail": kind, **more}
    return httpx.Response(status, json=body, headers={"Content-Type": "application/problem+json"})


def test_broken_connection_costs_a_chunk() -> None:
    def broken(what: str, n: int) -> None:
        if n == 1 and what in ("POST", "PUT /chunks/1", "POST /seal"):
            raise httpx.WriteError("broken")

    s = Uploads(broken)
    assert s.client.submit_batch(JOBS, name="large").id == ID
    assert [len(s.chunks[n].splitlines()) for n in range(3)] == [3, 3, 1]
    assert s.said == [
        "POST",
        "POST",
        "PUT /chunks/0",
        "PUT /chunks/1",
        "PUT /chunks/1",
        "PUT /chunks/2",
        "POST /seal",
        "POST /seal",
    ]


def test_wrong_job_is_named_by_its_line_of_all() -> None:
    def wrong(what: str, n: int) -> httpx.Response | None:
        errors = [{"field": "image", "line": 2, "problem": "is none"}]
        return (
            problem(422, "invalid", detail="line 2: image: is none", errors=errors) if what == "PUT /chunks/1" else None
        )

    s = Uploads(wrong)
    with pytest.raises(assay.InvalidError, match="line 5: image: is none") as e:
        s.client.submit_batch(JOBS)
    assert (e.value.line, e.value.errors[0]["line"], s.said[-1]) == (5, 5, "DELETE")


def test_upload_is_given_up_with_what_the_jobs_raise() -> None:
    def jobs() -> Iterator[Any]:
        yield from JOBS
        raise KeyError("mine")

    s = Uploads()
    with pytest.raises(KeyError, match="mine"):
        s.client.submit_batch(jobs())
    assert s.said == ["POST", "PUT /chunks/0", "PUT /chunks/1", "DELETE"]


def test_upload_with_a_key_can_go_on() -> None:
    s = Uploads(lambda what, n: problem(503, "unavailable") if what == "PUT /chunks/1" else None)
    with pytest.raises(assay.UnavailableError):
        s.client.submit_batch(JOBS, key="k")
    assert "DELETE" not in s.said
    s.trouble = lambda what, n: None
    assert s.client.submit_batch(JOBS, key="k").id == ID
    with pytest.raises(assay.KeyUsedError, match="3 chunks"):
        s.client.submit_batch(JOBS[:4], key="k")


def test_upload_without_a_key_is_given_up() -> None:
    s = Uploads(lambda what, n: problem(503, "unavailable") if what == "PUT /chunks/1" else None)
    with pytest.raises(assay.UnavailableError):
        s.client.submit_batch(JOBS)
    assert s.said[-1] == "DELETE"
