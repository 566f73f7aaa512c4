"""Reads why jobs wait, and ends calls whose jobs no connected worker can run."""

from __future__ import annotations

import warnings
from typing import Any

from .._calls import call, segment
from .._errors import APIError, AssayError, NoWorkerError
from .._units import Deadline
from .._waiting import LOOK, NEEDS, OnWait
from ._concurrency import Tasks
from ._transport import FOREVER, AsyncTransport


class AsyncWaits:
    """Watches the wait of one call's jobs."""

    def __init__(self, transport: AsyncTransport, on_wait: OnWait) -> None:
        self._transport = transport
        self._on_wait = on_wait
        self._before = ""  # the job that no worker could run at the last look
        self.warned = False

    async def look(self, id: str, deadline: Deadline = FOREVER) -> str:
        """Why a job waits, as a sentence; "" if it does not.

        Raises NoWorkerError if no connected worker could run it now and at the last look. A restarting worker
        connects again meanwhile.
        """
        c = call("GET", f"/v1/jobs/{segment(id)}", query={"fields": "state,waits_for,message"})
        try:
            job: dict[str, Any] = (await self._transport.send(c, deadline)).json()
        except APIError:
            return ""  # the next request for its result raises the error
        message = str(job.get("message") or "") if job.get("waits_for") else ""
        again, self._before = self._before == id, id if job.get("waits_for") == NEEDS else ""
        if self._before and again and self._on_wait == "raise":
            raise NoWorkerError(f"job {id} {message}")
        if self._before and again and self._on_wait == "warn" and not self.warned:
            self.warned = True
            warnings.warn(f"job {id} {message}", stacklevel=2)
        return message

    async def of_batch(self, batch: str) -> str:
        """The same for the first queued job of a batch."""
        query = {"batch": batch, "state": "queued", "limit": 1, "fields": "id"}
        try:
            listed: dict[str, Any] = (await self._transport.send(call("GET", "/v1/jobs", query=query))).json()
        except APIError:
            return ""
        jobs: list[dict[str, Any]] = listed.get("jobs") or []
        return await self.look(jobs[0]["id"]) if jobs else ""

    @property
    def pause(self) -> float:
        """Seconds to the next look."""
        return LOOK if self._before and not self.warned else 4 * LOOK


async def warn_of_waits(transport: AsyncTransport, batch: str, tasks: Tasks) -> None:
    """Warns once if no connected worker can run a queued job of a batch. The batch goes on: workers may come."""
    waits, pause = AsyncWaits(transport, "warn"), LOOK
    while not waits.warned and await tasks.sleep(pause):
        try:
            await waits.of_batch(batch)
        except AssayError:
            pass  # the waiting caller gets the error
        pause = waits.pause
