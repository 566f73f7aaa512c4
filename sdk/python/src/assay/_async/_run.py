"""One job, from its request to its result."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from .. import models
from .._calls import TURN, call, segment
from .._errors import AssayError, NotFoundError, NoWorkerError, Timeout
from .._result import POSITION, Result, marked
from .._units import Deadline
from .._waiting import LOOK, OnWait, expiring
from ._concurrency import CANCELED, sleep
from ._transport import FOREVER, AsyncTransport
from ._waits import AsyncWaits

TIDY = 5.0
"""Seconds for canceling work that no caller waits for."""


async def run(
    transport: AsyncTransport,
    spec: Mapping[str, Any],
    deadline: Deadline = FOREVER,
    fields: Iterable[str] | None = None,
    on_wait: OnWait = "raise",
) -> Result:
    """Runs a job and waits for its result.

    It cancels the job when the deadline is over or the wait is ended from outside.
    """
    only = ",".join(fields) if fields else None
    mark = str(uuid.uuid4())
    body = marked({"expires_in": expiring(deadline.given), **spec}, mark)
    c = call("POST", "/v1/run", query={"fields": only}, body=body, wait=deadline.left(LOOK))
    try:
        answer = await transport.send(c, deadline)
        if answer.status == 200:
            return Result(answer.json())
        return await wait(transport, answer.json()["id"], deadline, only, AsyncWaits(transport, on_wait))
    except (NoWorkerError, Timeout, *CANCELED):
        await cancel_marked(transport, mark)
        raise


async def wait(transport: AsyncTransport, id: str, deadline: Deadline, fields: str | None, waits: AsyncWaits) -> Result:
    """Waits for the result of an accepted job."""
    turn = LOOK
    while True:
        if not deadline.over:
            turn = min(TURN, 2 * turn)
            turn = LOOK if await waits.look(id, deadline) and waits.pause == LOOK else turn
        c = call("GET", f"/v1/jobs/{segment(id)}/result", query={"fields": fields}, wait=deadline.left(turn))
        try:
            return Result((await transport.send(c, deadline)).json())
        except NotFoundError:
            # Not recorded yet, or no such job: the next request raises in the second case.
            await transport.send(call("GET", f"/v1/jobs/{segment(id)}", query={"fields": "id"}), deadline)
        if deadline.over:
            raise Timeout(f"job {id} has no result within {deadline.given} s")


async def cancel_marked(transport: AsyncTransport, mark: str) -> None:
    """Cancels a job that no caller waits for, by its label.

    Its request may still be on its way, so it is searched a few times.
    """
    deadline = Deadline(TIDY)
    try:
        for pause in (0.05, 0.15, 0.3, 0.5):
            c = call("POST", "/v1/jobs/cancel", body={"labels": {POSITION: mark}})
            report = models.CancelReport.from_dict((await transport.send(c, deadline)).json())
            if report.canceled or report.stopping:
                return
            await sleep(pause)
    except AssayError:
        pass  # the fleet is unavailable; the job ends by its own limits


async def cancel_job(transport: AsyncTransport, id: str) -> None:
    try:
        await transport.send(call("POST", f"/v1/jobs/{segment(id)}/cancel"), Deadline(TIDY))
    except AssayError:
        pass


async def cancel_batch(transport: AsyncTransport, id: str) -> None:
    """Cancels a batch that no caller waits for, if that can be done quickly."""
    try:
        await transport.send(call("POST", f"/v1/batches/{segment(id)}/cancel"), Deadline(TIDY))
    except AssayError:
        pass
