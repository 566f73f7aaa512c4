"""Runs many programs lazily: takes items as there is room, and yields results as they come."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from .. import models
from .._arguments import listed
from .._calls import call, encode, segment
from .._chunks import Chunk, MapOptions, refused
from .._errors import APIError, AssayError, KeyUsedError, NoWorkerError, Timeout, reused
from .._held import Held
from .._jobs import job
from .._progress import Progress, reporter
from .._result import POSITION, Result, marked
from .._units import Deadline, seconds
from .._waiting import LOOK
from ._batches import batch_options, pages
from ._concurrency import Queue, Tasks, each
from ._run import cancel_batch
from ._transport import AsyncTransport
from ._upload import whole
from ._waits import AsyncWaits


class AsyncMapper:
    """One call of map. It submits chunks of items as batches, a few at a time. A task for each reads its results."""

    def __init__(self, transport: AsyncTransport, items: Any, options: MapOptions, progress: Progress) -> None:
        listed("items", items, "for one program use run, or give [program]")
        self._transport = transport
        self._source = each(items)
        self._options = options
        self._deadline = Deadline(options.timeout)
        self._progress = reporter(progress, len(items) if hasattr(items, "__len__") else None)
        self._queue: Queue[tuple[Chunk, list[Result] | Exception | None]] = Queue(4)
        self._tasks = Tasks()
        self._live: dict[int, Chunk] = {}  # by their start
        self._ready = Held()  # results whose turn has not come
        self._taken = 0  # number of items
        self._given = 0  # number of results
        self._exhausted = False
        self._failed: Exception | None = None  # the exception of the items, raised after the results of earlier items
        self._about = batch_options(
            name=options.name, labels=options.labels, label_caps=options.label_caps, defaults=options.defaults,
            lease=options.lease,
        )  # fmt: skip

    async def results(self) -> AsyncIterator[Result]:
        """The results. After any end, no work continues: batches without a key are canceled, and batches with a key
        can be resumed."""
        if self._options.lease:
            self._tasks.start(self._keep, seconds(self._about["lease"]) / 3)
        self._tasks.start(self._watch)
        try:
            while await self._fill():
                for result in self._turn(await self._next()):
                    self._given += 1
                    self._progress.update(result)
                    if self._options.on_error == "raise" and result.error is not None:
                        raise result.error
                    yield result
            if self._failed is not None:
                raise self._failed
        finally:
            self._progress.close()
            self._queue.close()
            self._ready.close()
            await self._tasks.stop()
            if self._options.key is None:
                for chunk in list(self._live.values()):
                    await cancel_batch(self._transport, chunk.batch)

    async def _fill(self) -> bool:
        """Takes items while there is room and no results wait. False if there is nothing left to wait for."""
        while not self._exhausted and self._taken - self._given + self._options.chunk <= self._options.window:
            await self._submit(await self._take())
            if not self._queue.empty():
                break
        return bool(self._live or self._ready)

    async def _take(self) -> Chunk:
        """The next items, as a chunk. Its end depends only on the items: the same items make the same chunks."""
        chunk = Chunk(self._taken)
        while len(chunk.lines) < self._options.chunk and chunk.bytes < self._options.chunk_bytes:
            try:
                item = await self._source.__anext__()
            except StopAsyncIteration:
                self._exhausted = True
                break
            except Exception as e:
                return self._broken(chunk, e)
            try:
                chunk.add(self._taken, item, encode(marked(job(item), str(self._taken))))
            except (TypeError, ValueError) as e:
                error = type(e)(f"item {self._taken}: {e}")
                error.__cause__ = e
                return self._broken(chunk, error)
            self._taken += 1
        return chunk

    def _broken(self, chunk: Chunk, error: Exception) -> Chunk:
        """The last chunk, after the items raised. With a key it is empty: without the error it would have other
        items."""
        self._exhausted, self._failed = True, error
        if self._options.key is None:
            return chunk
        self._taken = chunk.start
        return Chunk(chunk.start)

    async def _submit(self, chunk: Chunk) -> None:
        """Submits a chunk. A refused item gets the refusal as its result, and the others are submitted without it."""
        while chunk.lines:
            try:
                batch = await self._post(chunk)
            except APIError as e:
                if e.status >= 500 or not 1 <= e.line <= len(chunk.lines):
                    raise
                position = chunk.drop(e.line)
                self._ready.put(refused(e, position, chunk.items.pop(position)))
                continue
            chunk.batch = batch.id
            chunk.lines.clear()
            self._live[chunk.start] = chunk
            self._tasks.start(self._read, chunk)
            return

    async def _post(self, chunk: Chunk) -> models.Batch:
        key = None if self._options.key is None else f"{self._options.key}/{self._options.chunk}/{chunk.start}"
        try:
            return await whole(self._transport, chunk.body(), self._about, key, self._deadline)
        except KeyUsedError as e:
            raise reused(e, self._options.key) from None

    async def _read(self, chunk: Chunk) -> None:
        """Reads the results of a chunk, no faster than they are taken."""
        try:
            async for found in pages(
                self._transport, chunk.batch, follow=True, fields=self._options.fields, deadline=self._deadline,
                tasks=self._tasks,
            ):  # fmt: skip
                await self._queue.put((chunk, found))
            await self._queue.put((chunk, None))
        except Exception as e:
            await self._queue.put((chunk, e))

    async def _next(self) -> list[Result]:
        """The next results, from any chunk."""
        if self._ready and self._queue.empty() and (self._options.order == "completed" or self._given in self._ready):
            return []
        try:
            chunk, found = await self._queue.get(self._deadline.left(threshold(self._deadline)))
        except TimeoutError:
            raise Timeout(f"map: {self._given} results within {self._deadline.given} s, and not all") from None
        if isinstance(found, Exception):
            raise found
        if found is None:
            del self._live[chunk.start]
            if chunk.items:
                raise AssayError(f"batch {chunk.batch} is done without results of items {sorted(chunk.items)[:10]}")
            return []
        for result in found:
            result.index = int(result.raw["labels"][POSITION])
            result.item = chunk.items.pop(result.index)
        return found

    def _turn(self, found: list[Result]) -> list[Result]:
        """The results whose turn it is: of the found ones and of the earlier ones."""
        if self._options.order == "completed":
            return [*self._ready.drain(), *found]
        for result in found:
            self._ready.put(result)
        out: list[Result] = []
        while (position := self._given + len(out)) in self._ready:
            out.append(self._ready.pop(position))
        return out

    async def _watch(self) -> None:
        """Reads why jobs wait, while no results come."""
        waits, given, pause = AsyncWaits(self._transport, self._options.on_wait), -1, LOOK
        note = self._options.note or self._progress.note
        while await self._tasks.sleep(pause):
            live = list(self._live.values())
            silent, given, pause = given == self._given, self._given, LOOK
            if not live or not silent:
                note("")
                continue
            try:
                note(await waits.of_batch(live[0].batch))
            except NoWorkerError as e:
                await self._queue.put((live[0], e))
                return
            except AssayError:
                continue  # the task that reads its results gets the error
            pause = waits.pause

    async def _keep(self, pause: float) -> None:
        """Renews the leases of the live batches."""
        while await self._tasks.sleep(pause):
            for chunk in list(self._live.values()):
                try:
                    await self._transport.send(call("POST", f"/v1/batches/{segment(chunk.batch)}/keepalive"))
                except AssayError:
                    pass  # the task that reads its results gets the error


def threshold(deadline: Deadline) -> float:
    """The longest wait in seconds. Without a deadline it is practically unlimited: a batch ends by its own limits."""
    return 1e6 if deadline.at is None else deadline.given or 0.0
