"""Jobs whose results come as futures. Jobs submitted within a moment go to the fleet together."""

from __future__ import annotations

import asyncio
import uuid
import weakref
from typing import Any, TypeAlias

from .. import models
from .._calls import encode
from .._errors import APIError, AssayError
from .._result import POSITION, Result, marked
from ._batches import batch_options, keep, pages
from ._concurrency import Tasks
from ._run import cancel_batch, cancel_marked, run
from ._transport import FOREVER, AsyncTransport
from ._upload import submit
from ._waits import warn_of_waits

MOMENT = 0.002
"""Seconds for which submitted jobs are collected."""

TOGETHER = 1000
"""Most jobs of one batch."""

AT_ONCE = 32
"""Most requests that wait for results. When it is reached, submitted jobs are collected for longer."""

LEASE = 60.0
"""Seconds after which the fleet ends the jobs of a dead client."""

Future: TypeAlias = "asyncio.Future[Result]"
"""The future result of a job. Canceling it cancels the job."""

Waiting = tuple[dict[str, Any], "asyncio.Future[Result]"]


class AsyncSubmitter:
    """Submits the jobs of any number of event loops."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._collectors: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Collector] = weakref.WeakKeyDictionary()

    def submit(self, spec: dict[str, Any]) -> asyncio.Future[Result]:
        """Submits a job. The future has its result, or raises. Canceling it cancels the job."""
        self._transport.check_open()
        loop = asyncio.get_running_loop()
        collector = self._collectors.get(loop)
        if collector is None:
            collector = self._collectors[loop] = _Collector(self._transport)
        return collector.submit(spec)

    async def stop(self) -> None:
        """Ends all work of this loop: cancels its futures and their jobs."""
        collector = self._collectors.pop(asyncio.get_running_loop(), None)
        if collector is not None:
            await collector.stop()


class _Collector:
    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport
        self._waiting: list[Waiting] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AT_ONCE)
        self._collecting = False

    def submit(self, spec: dict[str, Any]) -> asyncio.Future[Result]:
        encode(spec)  # values that JSON cannot represent raise here
        future: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._waiting.append((spec, future))
        if not self._collecting:
            self._collecting = True
            self._start(self._collect())
        return future

    def _start(self, work: Any) -> None:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()

    async def _collect(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(MOMENT)
                await self._room.acquire()
                taken = [w for w in self._waiting[:TOGETHER] if not w[1].done()]
                del self._waiting[:TOGETHER]
                self._start(self._settle(taken))
        finally:
            self._collecting = False

    async def _settle(self, taken: list[Waiting]) -> None:
        """Completes each of the futures."""
        try:
            if len(taken) == 1:
                await self._one(*taken[0])
            elif taken:
                await self._many(taken)
        except Exception as e:
            for _, future in taken:
                if not future.done():
                    future.set_exception(e)
        finally:
            self._room.release()
            for _, future in taken:
                future.cancel()

    async def _one(self, spec: dict[str, Any], future: asyncio.Future[Result]) -> None:
        task = asyncio.ensure_future(run(self._transport, spec, on_wait="warn"))
        future.add_done_callback(lambda f: task.cancel() if f.cancelled() else None)
        try:
            settle(future, await task)
        except asyncio.CancelledError:
            if not future.cancelled():
                raise

    async def _many(self, taken: list[Waiting]) -> None:
        named = {str(uuid.uuid4()): w for w in taken}
        while named:
            jobs = [marked(spec, name) for name, (spec, _) in named.items()]
            try:
                batch = await submit(self._transport, jobs, batch_options(lease=LEASE), None)
            except APIError as e:
                if e.status >= 500 or not 1 <= e.line <= len(jobs):
                    raise
                _, future = named.pop(list(named)[e.line - 1])
                if not future.done():
                    e.args = (e.without_line,)
                    future.set_exception(e)
                continue
            await self._read(batch, {name: future for name, (_, future) in named.items()})
            return

    async def _read(self, batch: models.Batch, futures: dict[str, asyncio.Future[Result]]) -> None:
        tasks, left = Tasks(), len(futures)
        tasks.start(keep, self._transport, batch.id, tasks)
        tasks.start(warn_of_waits, self._transport, batch.id, tasks)

        def ended(f: asyncio.Future[Result], name: str) -> None:
            nonlocal left
            left -= 1
            if f.cancelled():
                self._start(cancel_marked(self._transport, name))

        for name, future in futures.items():
            future.add_done_callback(lambda f, name=name: ended(f, name))
        try:
            async for found in pages(
                self._transport, batch.id, follow=True, fields=None, deadline=FOREVER, tasks=tasks
            ):
                for result in found:
                    settle(futures[result.raw["labels"][POSITION]], result)
            if left > 0:
                raise AssayError(f"batch {batch.id} is done without the results of {left} of its jobs")
        except BaseException:
            await cancel_batch(self._transport, batch.id)
            raise
        finally:
            await tasks.stop()


def settle(future: asyncio.Future[Result], result: Result) -> None:
    """Gives a future its result, unless it was canceled."""
    if future.done():
        return
    if result.infra:
        future.set_exception(result.error or AssayError(result.summary))
    else:
        future.set_result(result)
