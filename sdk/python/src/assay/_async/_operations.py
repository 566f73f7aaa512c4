"""Operations of the code that runs processes in a session: see _inside."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from typing import Any

from .. import models
from .._calls import Call, call, segment
from .._errors import AssayError
from .._processes import (
    CODE,
    INSTALL,
    LONGEST,
    OPERATION,
    SMALL,
    SOURCE,
    STAGED,
    Running,
    checked,
    executed,
    inline,
    source,
)
from .._units import Deadline
from ._run import TIDY
from ._transport import FOREVER, AsyncTransport
from ._turns import AsyncTurns


class AsyncOperations:
    """The operations in one session, for any number of callers."""

    def __init__(self, transport: AsyncTransport) -> None:
        self.longest = LONGEST
        self._transport = transport
        self._turns = AsyncTurns(transport)
        self._stage = ""  # the file in the session that transfers large data
        self._pause = 0.0
        self._forget: list[str] = []  # ids of processes that are no longer needed
        self._awaited: dict[str, Running] = {}

    @property
    def session(self) -> str:
        return self._turns.session

    @session.setter
    def session(self, id: str) -> None:
        self._turns.session = id

    async def install(self) -> str:
        """Installs the process keeper in the session; returns the session's directory."""
        async with self._turns.turn():
            answer = await self._execute({"do": "stage"}, install=True)
        self._stage = f"proc/self/fd/{answer['fd']}"
        return answer["cwd"]

    async def do(self, op: Mapping[str, Any], deadline: Deadline = FOREVER) -> Mapping[str, Any]:
        """Does one operation. OSError and ValueError are its own errors; AssayErrors are about the session and the
        fleet."""
        async with self._turns.turn():
            return checked(await self._execute(op, deadline))

    async def give(self, op: Mapping[str, Any], data: bytes) -> Mapping[str, Any]:
        """Does an operation with data, at most STAGED bytes."""
        async with self._turns.turn():
            if len(data) <= SMALL:
                return checked(await self._execute({**op, **inline(data)}))
            await self._put(data)
            return checked(await self._execute(op))

    async def give_all(self, op: Mapping[str, Any], data: bytes) -> None:
        """Does an operation once for each piece of the data, with the start of the piece."""
        for start in range(0, max(len(data), 1), STAGED):
            await self.give({**op, "start": start}, data[start : start + STAGED])

    async def get(self, op: Mapping[str, Any]) -> tuple[Mapping[str, Any], bytes]:
        """Does an operation whose answer has data."""
        async with self._turns.turn():
            answer = checked(await self._execute(op))
            if "data" in answer:
                return answer, base64.b64decode(answer["data"])
            return answer, (await self._transport.send(self._call("GET", f"files/{self._stage}"))).body

    async def start(self, process: Running, op: Mapping[str, Any]) -> None:
        """Starts a process, and waits for its end for as long as op specifies."""
        async with self._turns.turn(gives_way=True):
            process.tell(checked(await self._execute(op))["processes"].get(process.id))

    async def wait(self, process: Running, deadline: Deadline, output: bool = False) -> None:
        """Waits until a process has ended, or has written output, or the deadline is over."""
        while not deadline.over and not process.news(output):
            self._awaited[process.id] = process
            process.wanted = output
            try:
                async with self._turns.waiting(lambda: process.news(output), deadline) as mine:
                    if mine:
                        await self._wait(deadline)
            finally:
                self._awaited.pop(process.id, None)

    async def _wait(self, deadline: Deadline) -> None:
        """Waits for all processes that callers await."""
        self._pause = min(max(2 * self._pause, 0.5), self.longest)
        op = {
            "do": "wait", "seconds": deadline.left(self._pause), "inline": False,
            "ids": [p.id for p in self._awaited.values() if not p.wanted],
            "readable": [p.id for p in self._awaited.values() if p.wanted],
        }  # fmt: skip
        reports = checked(await self._execute(op))["processes"]
        for id, report in reports.items():
            if id in self._awaited:
                self._awaited[id].tell(report)
        if reports:
            self._pause = 0.0

    async def refresh(self, process: Running) -> None:
        """Updates the report of a process."""
        op = {"do": "report", "process": process.id, "starts": [process.taken["stdout"], process.taken["stderr"]]}
        process.tell((await self.do(op))["processes"][process.id])

    async def output(self, process: Running) -> tuple[bytes, bytes]:
        """The unread output of a process, of both streams."""
        if not process.inline:
            await self.refresh(process)
        out = [await self._stream(process, stream) for stream in ("stdout", "stderr")]
        process.inline = process.readable = False
        return out[0], out[1]

    async def _stream(self, process: Running, stream: str) -> bytes:
        report, out = process.report[stream], bytearray()
        if "data" in report:
            out += base64.b64decode(report["data"])
        while process.taken[stream] + len(out) < report["end"]:
            op = {"do": "take", "process": process.id, "stream": stream, "start": process.taken[stream] + len(out)}
            piece = (await self.get(op))[1]
            if not piece:
                break
            out += piece
        process.taken[stream] += len(out)
        return bytes(out)

    async def kill(self, process: Running) -> None:
        """Ends a process that no caller waits for, if that can be done quickly."""
        try:
            await self.do({"do": "kill", "process": process.id}, Deadline(TIDY))
        except (AssayError, OSError, ValueError):
            pass  # it ends by its timeout, or with the session
        self.forget(process)

    def forget(self, process: Running) -> None:
        """Marks a process as no longer needed, to be sent with the next operation."""
        self._forget.append(process.id)

    async def _put(self, data: bytes) -> None:
        c = self._call("PUT", f"files/{self._stage}")
        c.body, c.headers["Content-Type"] = data, "application/octet-stream"
        await self._transport.send(c)

    def _call(self, method: str, path: str, body: Any = None) -> Call:
        if not self.session:
            raise ValueError("the sandbox is not started: use it in a with, or call start()")
        return call(method, f"/v1/sessions/{segment(self.session)}/{path}", body=body)

    async def _execute(
        self, op: Mapping[str, Any], deadline: Deadline = FOREVER, install: bool = False
    ) -> Mapping[str, Any]:
        """Does an operation in the caller's turn. It is repeated until its outcome is known, and has effect once:
        the code inside identifies it by its id."""
        forget = self._forget[:]
        variables: dict[str, Any] = {OPERATION: {**op, "op": uuid.uuid4().hex, "forget": forget}}
        if install:
            variables[SOURCE] = source()
        c = self._call("POST", "execute", {"code": INSTALL if install else CODE, "variables": variables})
        c.wait = op.get("seconds", 0.0)
        while True:
            answer = executed(models.Execute.from_dict((await self._transport.send(c, deadline)).json()))
            if answer is not None:
                del self._forget[: len(forget)]
                return answer
