"""Batches: many jobs, accepted together."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, NamedTuple

from .. import models
from .._arguments import LabelValue, labeled, listed, mapped, text
from .._calls import TURN, Call, call, segment
from .._errors import APIError, Timeout, UnavailableError, Unreachable
from .._result import Result, lines
from .._units import Deadline, Seconds, duration, seconds
from ._concurrency import Tasks
from ._stream import AsyncResultStream
from ._transport import FOREVER, AsyncTransport
from ._waits import warn_of_waits

OVER = ("finished", "canceled")
"""States of finished jobs."""


class Page(NamedTuple):
    """Results, and the cursor of the next page."""

    results: list[Result]
    cursor: str
    complete: bool


def batch_options(
    *,
    name: str | None = None,
    labels: Mapping[str, LabelValue] | None = None,
    label_caps: Mapping[str, int] | None = None,
    defaults: Mapping[str, Any] | None = None,
    callback: Mapping[str, Any] | None = None,
    lease: Seconds | None = None,
) -> dict[str, Any]:
    """The fields of a batch, without its jobs."""
    given = {
        "labels": labeled(labels),
        "label_caps": mapped("label_caps", label_caps, '{"problem": 4}'),
        "defaults": mapped("defaults", defaults, '{"policy": {"wall": "10s"}}'),
        "callback": mapped("callback", callback, '{"url": "https://…"}'),
    }
    out: dict[str, Any] = {k: v for k, v in given.items() if v}
    text("name", name)
    if name is not None:
        out["name"] = name
    if lease is not None:
        out["lease"] = duration(lease, "lease")
    return out


def page_call(batch: str, after: str, wait: float, fields: Iterable[str] | None, limit: int = 500) -> Call:
    query = {"after": after, "limit": limit, "fields": ",".join(fields) if fields else None}
    return call("GET", f"/v1/batches/{segment(batch)}/results", query=query, wait=wait)


async def page(transport: AsyncTransport, c: Call, deadline: Deadline = FOREVER) -> Page:
    """One page of results."""
    answer = await transport.send(c, deadline)
    headers = answer.headers
    return Page(lines(answer.body), headers.get("Assay-Cursor", "0"), headers.get("Assay-Complete") == "true")


def pace(elapsed: float) -> float:
    """Seconds to wait for more results before the next page, as each page costs both ends more than a result does.
    A tenth of the time already waited is not noticeable."""
    return min(elapsed / 10, 0.5)


async def pages(
    transport: AsyncTransport,
    batch: str,
    *,
    follow: bool,
    fields: Iterable[str] | None,
    deadline: Deadline,
    tasks: Tasks,
) -> AsyncIterator[list[Result]]:
    """The results of a batch, page by page, each once. With follow, it continues until the batch is done."""
    cursor, polls, began = "0", 0, time.monotonic()
    while not tasks.stopped:
        wait = deadline.left(TURN if polls == 0 else 20.0) if follow else 0.0
        p = await page(transport, page_call(batch, cursor, wait, fields), deadline)
        if p.results:
            yield p.results
        if p.complete or (not follow and not p.results):
            return
        if deadline.over:
            raise Timeout(f"batch {batch} is not done within {deadline.given} s; it goes on")
        cursor, polls = p.cursor, 0 if len(p.results) >= 500 else polls + 1
        if follow and polls > 3 and not await tasks.sleep(pace(time.monotonic() - began)):
            return


async def keep(transport: AsyncTransport, batch: str, tasks: Tasks) -> None:
    """Renews the lease of a batch, three times in its length, until the batch is done or no caller waits for it.

    It ignores errors of the batch, which the waiting caller gets.
    """
    pause = 0.0
    while await tasks.sleep(pause):
        try:
            c = call("POST", f"/v1/batches/{segment(batch)}/keepalive")
            b = models.Batch.from_dict((await transport.send(c)).json())
        except (Unreachable, UnavailableError):
            pause = max(pause, 1.0)
            continue
        except APIError:
            return
        lease = seconds(b.lease or "0s")
        if lease <= 0 or done(b):
            return
        pause = lease / 3


def done(b: models.Batch) -> bool:
    """Whether all jobs of a batch are over."""
    return sum(b.counts.get(state, 0) for state in OVER) >= b.total


class AsyncBatch:
    """A batch, by its id.

    Attributes:
        id: of the batch.
        submitted: the batch as submitted; None for a batch that was looked up.
    """

    def __init__(self, transport: AsyncTransport, id: str, submitted: models.Batch | None = None) -> None:
        self._transport = transport
        self.id = id
        self.submitted = submitted

    @property
    def _path(self) -> str:
        return f"/v1/batches/{segment(self.id)}"

    async def status(self) -> models.Batch:
        """The current state of the batch: counts of jobs by state, and of finished jobs by outcome."""
        return models.Batch.from_dict((await self._transport.send(call("GET", self._path))).json())

    async def wait(self, timeout: Seconds | None = None) -> models.Batch:
        """Waits until every job of the batch is over, and renews its lease meanwhile. Warns if no connected worker can
        run a queued job.

        Raises Timeout after that many seconds; the batch continues.
        """
        deadline, tasks = Deadline(timeout), Tasks()
        tasks.start(keep, self._transport, self.id, tasks)
        tasks.start(warn_of_waits, self._transport, self.id, tasks)
        try:
            while True:
                c = call("GET", self._path, wait=deadline.left(TURN))
                b = models.Batch.from_dict((await self._transport.send(c, deadline)).json())
                if done(b):
                    return b
                if deadline.over:
                    raise Timeout(f"batch {self.id} is not done within {deadline.given} s; it goes on")
        finally:
            await tasks.stop()

    def results(
        self, *, follow: bool = True, fields: Iterable[str] | None = None, timeout: Seconds | None = None
    ) -> AsyncResultStream:
        """The results in the order in which they became visible, each once, as jobs end.

        Args:
            follow: wait for further results until the batch is done, and renew its lease meanwhile. It warns if no
                connected worker can run a queued job. Without it, the results end with the last available one.
            fields: names of fields of a result; others are omitted. assay.BRIEF omits most of the bytes.
            timeout: seconds for all of it; then Timeout is raised, and the batch goes on.
        """
        if fields is not None:
            listed("fields", fields, 'for one field give ["outcome"]')
        return AsyncResultStream(self._results(follow, list(fields) if fields is not None else None, Deadline(timeout)))

    async def _results(self, follow: bool, fields: list[str] | None, deadline: Deadline) -> AsyncIterator[Result]:
        tasks = Tasks()
        if follow:
            tasks.start(keep, self._transport, self.id, tasks)
            tasks.start(warn_of_waits, self._transport, self.id, tasks)
        try:
            async for found in pages(
                self._transport, self.id, follow=follow, fields=fields, deadline=deadline, tasks=tasks
            ):
                for result in found:
                    yield result
        finally:
            await tasks.stop()

    async def progress(self) -> AsyncIterator[models.Batch]:
        """The batch after each change, at most four times a second, and finally when it is done."""
        while True:
            c = call("GET", self._path + "/events")
            c.wait = 3600.0  # the stream is silent while nothing changes
            async for kind, data in self._transport.events(c):
                yield models.Batch.from_dict(data)
                if kind == "done":
                    return

    async def cancel(self) -> models.Batch:
        """Cancels every unfinished job of the batch. Running jobs stop soon after."""
        return models.Batch.from_dict((await self._transport.send(call("POST", self._path + "/cancel"))).json())

    async def retry(self) -> AsyncBatch:
        """Submits the jobs that did not succeed again, as a new batch. ConflictError if this one is not done."""
        b = models.Batch.from_dict((await self._transport.send(call("POST", self._path + "/retry"))).json())
        return AsyncBatch(self._transport, b.id, b)

    async def keep(self) -> models.Batch:
        """Renews the lease of the batch once. LostError or ConflictError if the batch was abandoned before."""
        return models.Batch.from_dict((await self._transport.send(call("POST", self._path + "/keepalive"))).json())

    def __repr__(self) -> str:
        return f"<assay batch {self.id}>"
