"""A sandbox: processes and files in one session of the fleet."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from .. import models
from .._arguments import LabelValue, labeled
from .._calls import call, segment
from .._errors import AssayError, ClosedError, ConflictError, NotFoundError
from .._jobs import PolicyLike
from .._processes import (
    IDLE,
    MOST,
    SMALL,
    STAGED,
    Completed,
    Running,
    below,
    environment,
    inline,
    limited,
    octets,
    patience,
    sandbox_policy,
    words,
)  # fmt: skip
from .._units import Deadline, Seconds, duration, positive, seconds
from ._concurrency import CANCELED, Tasks, finish
from ._operations import AsyncOperations
from ._process import AsyncProcess
from ._transport import FOREVER, AsyncTransport

B = TypeVar("B", bound="AsyncSandbox")

CLOSE = 10.0
"""Seconds for ending the sandbox. If it takes longer, the sandbox ends by its lease."""


class AsyncSandbox:
    """Processes and files of one sandbox, which is a session of the fleet: client.sandbox().

    Any number of commands may run at once. Programs are user 1000 of the sandbox and have its image; they may write to
    the policy's write directories, by default /workspace and /tmp. Their failures are data. Faults of a file, or of a
    command that cannot be started, raise OSError with the sandbox's errno. Failures of the fleet raise APIError,
    Unreachable or Timeout, as everywhere. An ended sandbox raises ConflictError with the reason: it ends when its
    programs use more memory than its policy has.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        *,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        pool: str | None = None,
        lease: Seconds | None = 60.0,
        idle_timeout: Seconds | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._transport = transport
        self._spec: dict[str, Any] = {
            "kind": "python", "policy": sandbox_policy(policy), "image": image, "name": name, "pool": pool,
            "labels": labeled(labels) or None, "lease": None if lease is None else duration(lease, "lease"),
            "idle_timeout": duration(IDLE if idle_timeout is None else idle_timeout, "idle_timeout"),
        }  # fmt: skip
        self._cwd, self._env = cwd or "", environment(env)
        self._operations = AsyncOperations(transport)
        self._tasks = Tasks()
        self._started = self._closed = False

    @property
    def id(self) -> str:
        """Id of the session; "" before it is started."""
        return self._operations.session

    @property
    def cwd(self) -> str:
        """The directory of commands and relative paths."""
        return self._cwd

    def __repr__(self) -> str:
        return f"<assay sandbox {self.id or 'that is not started'}>"

    async def __aenter__(self: B) -> B:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def start(self: B) -> B:
        """Starts the sandbox, once, and returns it.

        Raises:
            APIError: the fleet refuses it, or has no room for it.
            ValueError: it was closed, or its policy allows no processes.
        """
        if self._closed:
            raise ValueError("the sandbox was closed: make another one")
        if self._started:
            return self
        self._started = True
        try:
            body = {k: v for k, v in self._spec.items() if v is not None}
            answer = await self._transport.send(call("POST", "/v1/sessions", body=body))
            session = models.Session.from_dict(answer.json())
            self._operations.session = session.id
            await self._begin(session)
        except BaseException:
            await finish(self.aclose)
            raise
        return self

    async def _begin(self, session: models.Session) -> None:
        if self._spec["lease"]:
            self._tasks.start(self._keep, seconds(self._spec["lease"]) / 3)
        self._operations.longest = patience(session.spec.policy)
        self._cwd = below(await self._operations.install(), self._cwd)

    async def aclose(self) -> None:
        """Ends the sandbox, with all of its processes. Does nothing the second time."""
        closed, self._closed = self._closed, True
        await self._tasks.stop()
        if closed or not self.id:
            return
        try:
            c = call("DELETE", f"/v1/sessions/{segment(self.id)}", once=True)
            await self._transport.send(c, Deadline(CLOSE))
        except AssayError:
            pass  # it has ended, or will by its lease

    async def _keep(self, every: float) -> None:
        while await self._tasks.sleep(every):
            try:
                await self._transport.send(call("POST", f"/v1/sessions/{segment(self.id)}/keepalive", once=True))
            except (ClosedError, ConflictError, NotFoundError):
                return  # the next call raises the error
            except AssayError:
                continue

    async def exec(
        self,
        argv: str | Sequence[str],
        *,
        stdin: bytes | str | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout: Seconds | None = None,
        limit: int | None = None,
    ) -> Completed:
        """Runs a command and waits for its end. A failed command is a result too.

        Args:
            argv: words, or a text for sh.
            stdin: its input; nothing by default.
            cwd: its directory; if it is relative, below the sandbox's own.
            env: variables, over those of the sandbox.
            timeout: seconds, or a duration such as "5s", after which it is killed with all of its processes.
            limit: bytes of each stream, by default 64 MiB. A command that writes more is killed: see Completed.

        A command ends when its own process does. Its background processes run on, and no result has their later output.
        If the wait is ended from outside, the command is killed.

        Raises:
            OSError: it cannot be started: FileNotFoundError (no such command or directory), PermissionError and so on.
        """
        timeout = positive("timeout", timeout)
        limited("limit", limit)
        running = Running(words(argv))
        try:
            await self._start(
                running, stdin, cwd, env, timeout, {"most": limit or MOST, "keeps": False, "seconds": 1.0}
            )
            await self._operations.wait(running, FOREVER)
            stdout, stderr = await self._operations.output(running)
        except (AssayError, *CANCELED):
            await finish(self._operations.kill, running)
            raise
        self._operations.forget(running)
        r = running.report
        return Completed(
            tuple(running.argv), r["code"], stdout, stderr, r["timed_out"], r["stdout"]["cut"] or r["stderr"]["cut"]
        )

    async def spawn(
        self,
        argv: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bool = False,
        timeout: Seconds | None = None,
    ) -> AsyncProcess:
        """Starts a command and returns without waiting for its end.

        Args:
            argv, cwd, env, timeout: as of exec.
            stdin: whether it gets a stdin that can be written to; otherwise its stdin is empty.

        Raises:
            OSError: it cannot be started.
        """
        timeout = positive("timeout", timeout)
        running = Running(words(argv))
        try:
            await self._start(
                running, None, cwd, env, timeout, {"most": MOST, "keeps": True, "seconds": 0.0, "stdin": stdin}
            )
        except (AssayError, *CANCELED):
            await finish(self._operations.kill, running)
            raise
        return AsyncProcess(self._operations, running)

    async def _start(
        self,
        running: Running,
        stdin: bytes | str | None,
        cwd: str | None,
        env: Mapping[str, str] | None,
        timeout: float | None,
        more: Mapping[str, Any],
    ) -> None:
        op: dict[str, Any] = {
            "do": "spawn", "id": running.id, "argv": running.argv, "cwd": below(self._cwd, cwd),
            "env": {**self._env, **environment(env)}, "timeout": timeout, "stdin": False, **more,
        }  # fmt: skip
        data = None if stdin is None else octets(stdin)
        if data is not None and len(data) <= SMALL:
            op.update(inline(data))
        elif data is not None:
            await self._operations.give_all({"do": "input", "process": running.id}, data)
        await self._operations.start(running, op)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """Reads a file.

        Args:
            path: if it is relative, below the sandbox's cwd.
            limit: the largest accepted size in bytes.

        Raises:
            OSError: FileNotFoundError, PermissionError, IsADirectoryError; errno EFBIG if it is above the limit.
        """
        out = bytearray()
        most = STAGED if limit is None else min(STAGED, limit + 1)
        while True:
            size, piece = await self._read(path, len(out), most)
            out += piece
            if limit is not None and max(len(out), size) > limit:
                raise OSError(errno.EFBIG, f"the file has more than {limit} bytes", path)
            if len(piece) < most:
                return bytes(out)

    async def read_head(self, path: str, most: int) -> bytes:
        """Reads at most that many bytes from the beginning of a file. It raises as read_file does."""
        out = bytearray()
        while len(out) < most:
            _, piece = await self._read(path, len(out), min(STAGED, most - len(out)))
            out += piece
            if not piece:
                break
        return bytes(out)

    async def _read(self, path: str, start: int, length: int) -> tuple[int, bytes]:
        """The reported size of a file, and a part of it."""
        op = {"do": "read", "path": path, "cwd": self._cwd, "start": start, "length": length}
        answer, piece = await self._operations.get(op)
        return answer["size"], piece

    async def write_file(self, path: str, data: bytes | str) -> None:
        """Writes a file and its missing directories; a text as UTF-8. It replaces an existing file.

        Raises:
            OSError: PermissionError, IsADirectoryError and so on; errno ENOSPC if it exceeds the policy's disk.
        """
        await self._operations.give_all({"do": "store", "path": path, "cwd": self._cwd}, octets(data))
