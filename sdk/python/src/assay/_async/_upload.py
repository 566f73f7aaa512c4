"""Uploads batches: in one request or, if they are large, in chunks."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from .. import models
from .._arguments import listed
from .._calls import NDJSON, Call, call, encode, segment
from .._errors import APIError, AssayError, KeyUsedError
from .._jobs import Program, job
from .._units import Deadline
from ._transport import FOREVER, AsyncTransport

CHUNK_JOBS = 10_000
"""Jobs after which a chunk ends. The fleet accepts twice as many."""

CHUNK_BYTES = 8 << 20
"""Bytes of jobs after which a chunk ends. Memory holds one chunk, or a batch that is not larger."""

DROP = 5.0
"""Seconds for deleting an upload that will not be sealed. If it takes longer, the fleet deletes it later."""

Chunk = tuple[bytes, int]
"""Jobs as JSON Lines, and their number."""


def chunks(jobs: Iterable[Program]) -> Iterator[Chunk]:
    """Jobs in non-empty chunks."""
    lines, n = bytearray(), 0
    for one in jobs:
        lines += encode(job(one)) + b"\n"
        n += 1
        if n >= CHUNK_JOBS or len(lines) >= CHUNK_BYTES:
            yield bytes(lines), n
            lines, n = bytearray(), 0
    if n:
        yield bytes(lines), n


async def submit(
    transport: AsyncTransport,
    jobs: Iterable[Program],
    about: Mapping[str, Any],
    key: str | None,
    deadline: Deadline = FOREVER,
) -> models.Batch:
    """Submits jobs as one batch, all of them or none. An unanswered request is repeated."""
    listed("jobs", jobs, "for one program use run, or give [program]")
    rest = chunks(jobs)
    first, second = next(rest, None), next(rest, None)
    if first is None:
        raise ValueError("jobs: a batch has one job or more")
    if second is None:
        return await whole(transport, first[0], about, key, deadline)
    c = call("POST", "/v1/uploads", body=about, key=key)
    upload = models.Upload.from_dict((await transport.send(c, deadline)).json()).id
    try:
        total = await _put(transport, upload, first, second, rest, deadline)
        c = call("POST", f"/v1/uploads/{segment(upload)}/seal", body={"jobs": total})
        return models.Batch.from_dict((await transport.send(c, deadline)).json())
    except BaseException as e:
        if key is None or not (isinstance(e, AssayError) and _passing(e)):
            await _drop(transport, upload)
        raise


async def whole(
    transport: AsyncTransport, lines: bytes, about: Mapping[str, Any], key: str | None, deadline: Deadline = FOREVER
) -> models.Batch:
    """Submits JSON Lines as one batch, in one request."""
    query = {k: v if isinstance(v, str) else encode(v).decode() for k, v in about.items()}
    c = _lines(call("POST", "/v1/batches", query=query, key=key), lines)
    return models.Batch.from_dict((await transport.send(c, deadline)).json())


def _lines(c: Call, lines: bytes) -> Call:
    c.body = lines
    sum = base64.b64encode(hashlib.sha256(lines).digest()).decode()
    c.headers |= {"Content-Type": NDJSON, "Content-Digest": f"sha-256=:{sum}:"}
    return c


async def _put(
    transport: AsyncTransport, upload: str, first: Chunk, second: Chunk, rest: Iterator[Chunk], deadline: Deadline
) -> int:
    """Uploads all chunks, and returns their number of jobs."""
    total, n, next_chunk = 0, 0, 0
    for some in (iter((first, second)), rest):
        for body, jobs in some:
            c = _lines(call("PUT", f"/v1/uploads/{segment(upload)}/chunks/{n}"), body)
            try:
                answer = await transport.send(c, deadline)
            except APIError as e:
                raise _of_all(e, total) from e
            next_chunk = models.Upload.from_dict(answer.json()).next_chunk
            total, n = total + jobs, n + 1
    if next_chunk != n:
        detail = f"{next_chunk} chunks have been uploaded under this key, and these jobs are {n}"
        raise KeyUsedError(409, {"detail": detail})
    return total


async def _drop(transport: AsyncTransport, upload: str) -> None:
    c = call("DELETE", f"/v1/uploads/{segment(upload)}", once=True)
    try:
        await transport.send(c, Deadline(DROP))
    except AssayError:
        return


def _passing(e: AssayError) -> bool:
    """Whether an interrupted submit may continue later, under its key."""
    return not isinstance(e, APIError) or e.passing


def _of_all(e: APIError, before: int) -> APIError:
    """An error that names lines of a chunk, with the line numbers of the whole batch."""
    kind, (status, problem, retry_after) = e.__reduce__()
    detail: str = problem["detail"]
    errors: list[dict[str, Any]] = []
    for one in problem["errors"]:
        if line := one.get("line"):
            detail = detail.replace(f"line {line}:", f"line {line + before}:", 1)
            one = {**one, "line": line + before}
        errors.append(one)
    return kind(status, {**problem, "detail": detail, "errors": errors}, retry_after)
