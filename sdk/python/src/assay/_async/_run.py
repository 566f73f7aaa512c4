"""One job, from its request to its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._calls import TURN, Call, call, segment
from .._errors import AssayError, NotFoundError, Timeout
from .._result import Result
from .._units import Deadline
from ._concurrency import CANCELED
from ._transport import FOREVER, AsyncTransport

TIDY = 5.0
"""Seconds that may be spent on canceling what nobody waits for any more."""


async def run(
    transport: AsyncTransport,
    spec: Mapping[str, Any],
    deadline: Deadline = FOREVER,
    fields: Iterable[str] | None = None,
) -> Result:
    """Runs a job and waits for its result.

    When the deadline is over, or the wait is ended from outside, the job is canceled.
    """
    only = ",".join(fields) if fields else None
    c = call("POST", "/v1/run", query={"fields": only}, body=spec, wait=deadline.left(TURN))
    try:
        answer = await transport.send(c, deadline)
        if answer.status == 200:
            return Result(answer.json())
        return await wait(transport, answer.json()["id"], deadline, only)
    except (Timeout, *CANCELED):
        await cancel(transport, c)
        raise


async def wait(transport: AsyncTransport, id: str, deadline: Deadline, fields: str | None) -> Result:
    """Waits for the result of a job that was accepted."""
    while True:
        c = call("GET", f"/v1/jobs/{segment(id)}/result", query={"fields": fields}, wait=deadline.left(TURN))
        try:
            return Result((await transport.send(c, deadline)).json())
        except NotFoundError:
            # Not recorded yet, or no such job: the second is not worth waiting for.
            await transport.send(call("GET", f"/v1/jobs/{segment(id)}", query={"fields": "id"}), deadline)
        if deadline.over:
            raise Timeout(f"job {id} has no result within {deadline.given} s")


async def cancel(transport: AsyncTransport, c: Call) -> None:
    """Ends the job of a run whose answer nobody waits for: the same request under the same key says which one it is."""
    c.query["wait"], c.wait = "1ms", 0.001
    try:
        answer = await transport.send(c, Deadline(TIDY))
        if answer.status != 200:
            await cancel_job(transport, answer.json()["id"])
    except AssayError:
        pass  # the fleet is away; the job ends by its own limits


async def cancel_job(transport: AsyncTransport, id: str) -> None:
    try:
        await transport.send(call("POST", f"/v1/jobs/{segment(id)}/cancel"), Deadline(TIDY))
    except AssayError:
        pass


async def cancel_batch(transport: AsyncTransport, id: str) -> None:
    """Ends a batch that nobody waits for any more, if that can be done quickly."""
    try:
        await transport.send(call("POST", f"/v1/batches/{segment(id)}/cancel"), Deadline(TIDY))
    except AssayError:
        pass
