"""Sessions: live interpreters and shells, each on one worker."""

from __future__ import annotations

import contextlib
import contextvars
import uuid
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar, overload

from .. import models
from .._calls import JSON, MOST, Call, encode, segment
from .._ended import shown
from .._errors import APIError, AssayError, Timeout
from .._execution import Execution, Variable, listed
from .._functions import Functions, HostFunction, answering
from .._hosting import Host
from .._jobvalues import encode_python
from .._sessions import LARGEST, LONGEST, SLACK, assignment, place, variable, wall_of
from .._shell import content, script
from .._units import Deadline, Seconds, duration, seconds
from ..models import to_json
from ._background import AsyncBackground
from ._concurrency import CANCELED, Turn, sleep
from ._mapping import AsyncMapped
from ._run import TIDY
from ._transport import FOREVER, Answer, AsyncTransport

S = TypeVar("S", bound="AsyncSession")
F = TypeVar("F", bound=HostFunction)


class AsyncSession(AsyncMapped):
    """A live interpreter, or a shell, which keeps its state between executions.

    AsyncClient.session and AsyncClient.attach make it. It starts when a with statement enters it, or by start(). It may
    be shared: executions run one after another, in the order in which they come.

    After its end, every call raises ConflictError with the reason.
    """

    def __init__(
        self,
        transport: AsyncTransport,
        background: AsyncBackground,
        spec: Mapping[str, Any],
        functions: Functions,
        id: str | None = None,
    ) -> None:
        self._transport = transport
        self._background = background
        self._spec = dict(spec)
        self._functions = functions
        self._turn = Turn()
        self._id = id
        self._own = id is None  # whether it ends with this object
        self._wall = 0.0  # longest execution, in seconds
        self._host: Host | None = None
        self._end: weakref.finalize[Any, Any] | None = None  # ends the session when this object is garbage-collected
        self._closed = False

    @property
    def id(self) -> str:
        """Id of the session. RuntimeError before it is started."""
        if self._id is None:
            raise RuntimeError("the session is not started: enter it by a with statement, or call start()")
        return self._id

    def __repr__(self) -> str:
        return f"<assay session {self._id or 'that is not started'}>"

    # Its life

    async def start(self: S) -> S:
        """Starts the session, unless it is started already, and returns it.

        Raises:
            InvalidError: it is invalid; field and detail name the fault.
            QuotaError: the tenant has the maximum number of sessions.
            UnavailableError: no worker has room for it.
        """
        if self._host is not None:
            return self
        if self._id is None:
            names = self._functions.names()
            body = {**self._spec, "functions": names}
            found = await self._made(Call("POST", "/v1/sessions", headers={"Content-Type": JSON}, body=encode(body)))
            self._functions.have(names)
            self._begin(found)
        else:
            self._begin(await self.info())
            await self._inject()
        return self

    async def _made(self, c: Call) -> models.Session:
        """Makes a session, exactly one even if the request is repeated."""
        c.headers["Idempotency-Key"], c.wait = str(uuid.uuid4()), 60.0
        return models.Session.from_dict((await self._transport.send(c)).json())

    def _begin(self, found: models.Session) -> None:
        self._id = found.id
        self._wall = wall_of(found)
        lease = seconds(found.spec.lease or "0s")
        self._host = Host(found.id, self._functions, lease)
        self._background.ensure(self._host)
        if self._own and lease > 0:
            self._end = weakref.finalize(self, self._host.abandon)
            self._end.atexit = False

    async def close(self) -> models.Session | None:
        """Ends the session, also during an execution, and returns its final state; None if it was closed before.

        Artifacts of its policy are exported at its end. An attached session ends too: see detach.
        """
        return await self._close(FOREVER)

    async def _close(self, deadline: Deadline) -> models.Session | None:
        if self._closed or self._id is None:
            return None
        await self.detach()
        c = Call("DELETE", self._path(), wait=LONGEST)
        return models.Session.from_dict((await self._transport.send(c, deadline)).json())

    async def detach(self) -> None:
        """Detaches from the session, which continues until its lease or its idle timeout ends it. This process no
        longer answers its calls or renews its lease."""
        self._closed = True
        if self._end is not None:
            self._end.detach()
        if self._host is not None:
            await self._background.stop(self._host)

    async def leave(self, deadline: Deadline) -> None:
        """Ends a session that its client started with a lease, and detaches others; a closed client calls it."""
        if self._host is not None and not self._closed:
            await (self._close(deadline) if self._own and self._host.lease > 0 else self.detach())

    async def __aenter__(self: S) -> S:
        return await self.start()

    async def __aexit__(self, kind: object, *_: object) -> None:
        """Ends the session, or detaches an attached one. It does not hide an earlier exception."""
        try:
            await (self.close() if self._own else self.detach())
        except AssayError:
            if kind is None:
                raise

    async def info(self) -> models.Session:
        """The session in its present or final state: state, outcome and message have the details."""
        return models.Session.from_dict((await self._transport.send(Call("GET", self._path()))).json())

    async def keep(self) -> None:
        """Renews the lease once. A session that was started here does that by itself."""
        await self._ask(Call("POST", self._path("/keepalive")))

    # Executions

    async def run(
        self,
        code: str,
        *,
        variables: Mapping[str, Any] | None = None,
        wall: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> Execution:
        """Executes code in the session's own language, and waits for the result. An exception is data too.

        Args:
            code: a snippet, or in a shell session a script.
            variables: set before, with their exact types; docs/grading.md lists the types.
            wall: seconds (or a duration, or a timedelta) of this execution, at most the policy's.
            timeout: seconds for all of it, with earlier executions; then it is interrupted. The session continues.

        Raises:
            ConflictError: the session has ended before; the text has the reason. If it ends under an execution, the
                answer is an Execution with an outcome, and not alive.
            Unreachable: the fleet did not answer, so it is unknown whether the code ran.
            Timeout: the timeout is over.
        """
        body = encode_python({"code": code, "variables": variables})
        return await self._execute(body, wall, Deadline(timeout))

    async def shell(
        self,
        command: str | Sequence[str],
        *,
        stdin: str | bytes | None = None,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        wall: Seconds | None = None,
        timeout: Seconds | None = None,
    ) -> Execution:
        """Executes a command by bash, in a session of any kind: its directory, variables and functions stay.

        Args:
            command: a script, or the words of a command, which are quoted.
            stdin: its input; else there is none.
            cwd: its directory, and env: further variables. With one of these, or an input, it runs in a subshell, whose
                changes are lost.
            wall, timeout: as of run.

        Raises as run does.
        """
        text, files = script(command, stdin, cwd, env)
        deadline = Deadline(timeout)
        for path, data in files.items():
            await self._put(path, data, deadline)
        return await self._execute({"command": text}, wall, deadline)

    async def _execute(self, body: dict[str, Any], wall: Seconds | None, deadline: Deadline) -> Execution:
        most = self._wall
        if wall is not None:
            body["wall"] = duration(wall, "wall")
            most = min(most, seconds(body["wall"]))
        content = encode(body)  # values that JSON cannot represent raise here
        self._guard()
        await self._inject()
        c = Call("POST", self._path("/execute"), headers={"Content-Type": JSON}, body=content, once=True)
        c.wait, c.most = most + SLACK, LARGEST
        if not await self._turn.take(None if deadline.at is None else deadline.left(deadline.given or 0.0)):
            raise Timeout(f"session {self.id}: not begun within {deadline.given} s: another execution runs")
        try:
            self._functions.context = contextvars.copy_context()
            return Execution((await self._ask(c, deadline)).json())
        except (Timeout, *CANCELED):
            await self._give_way()
            raise
        finally:
            self._turn.give()

    async def _give_way(self) -> None:
        """Interrupts an execution without a waiting caller; its request may still be on its way."""
        deadline = Deadline(TIDY)
        with contextlib.suppress(AssayError):
            for pause in (0.1, 0.4, 0.0):
                await self._transport.send(Call("POST", self._path("/interrupt"), once=True), deadline)
                await sleep(pause)

    async def interrupt(self) -> None:
        """Interrupts the execution, as Ctrl-C does: it ends as canceled, and the session continues."""
        await self._transport.send(Call("POST", self._path("/interrupt"), once=True))

    async def reset(self) -> models.SessionReset:
        """Resets the namespace and the shell to their initial state; the answer lists the dropped items.

        Functions registered since are dropped too. Files stay.
        """
        found = models.SessionReset.from_dict((await self._ask(Call("POST", self._path("/reset"), once=True))).json())
        self._functions.keep(found.functions)
        return found

    async def fork(self: S) -> S:
        """A started copy, with the variables, modules, functions and files between two executions. From then on the
        two are independent, and each is closed separately.

        Raises:
            ConflictError: it has open shared memory, or has ended.
            InvalidError: its policy has no isolation, or no processes, for a copy.
        """
        self._guard()
        await self._inject()
        found = await self._made(Call("POST", self._path("/fork")))
        copy = type(self)(self._transport, self._background, self._spec, self._functions.copy(), found.id)
        copy._own = True
        copy._begin(found)
        return copy

    # Variables

    async def get(self, name: str) -> Any:
        """A variable's value, or its repr, if the value is of a type that cannot cross (see docs/grading.md).

        NotFoundError if there is no such variable. TooLargeError for more than 16 MiB of JSON: have the session
        write it to a file, and read that.
        """
        return shown((await self._value(name)).json())

    async def value(self, name: str) -> models.Value:
        """The same, with its type and its repr."""
        return models.Value.from_dict((await self._value(name)).json())

    async def _value(self, name: str) -> Answer:
        return await self._ask(Call("GET", self._path("/variables/" + variable(name))))

    async def set(self, name: str, value: Any) -> None:
        """Sets a variable to a value of up to 16 MiB. UnsendableError if it is of a type that cannot cross."""
        await self._ask(assignment(self._path(f"/variables/{variable(name)}"), name, value))

    async def set_context(self, value: Any) -> None:
        """Sets the variable "context"."""
        await self._ask(assignment(self._path("/context"), "context", value))

    async def names(self) -> dict[str, Variable]:
        """The variables with their types and reprs, at most 200, without names that begin with _."""
        return listed((await self._ask(Call("GET", self._path("/variables")))).json()["variables"])

    # Host functions

    @overload
    def function(self, f: F, *, name: str | None = None) -> F: ...
    @overload
    def function(self, f: None = None, *, name: str | None = None) -> Callable[[F], F]: ...
    def function(self, f: Any = None, *, name: str | None = None) -> Any:
        """Registers a function that code in the session calls, before or after the start; also as a decorator.

        It is called here, with the arguments as JSON, and its value returns as JSON. Asynchronous functions run in the
        event loop, others in threads, several at once. Its exceptions are raised in the session, as CallError.
        While the session waits for it, it cannot use the session itself.

        Args:
            f: the function.
            name: by which code calls it; else its own.

        Raises:
            TypeError, ValueError: it is not callable, has no usable name, or the policy does not allow the name.
        """
        if f is None:
            return partial(self.function, name=name)
        self._functions.add(f, name)
        return f

    async def _inject(self) -> None:
        """Sends the session the names of new functions."""
        names = list(self._functions.waiting)
        if not names:
            return
        await self._write("/functions", {"functions": names})
        self._functions.have(names)
        if self._host is not None:
            self._host.changed()

    # Files

    async def read_file(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """A file of the session, or length bytes of it from offset on.

        NotFoundError if there is none; AnswerTooLarge above 64 MiB: read such a file in parts.
        """
        c = Call("GET", self._path("/files/" + place(path)))
        if offset or length is not None:
            if offset < 0 or (length is not None and length <= 0):
                raise ValueError("offset: must not be negative; length: must be positive")
            c.headers["Range"] = f"bytes={offset}-{'' if length is None else offset + length - 1}"
            c.most = max(MOST, length or 0)
        try:
            return (await self._ask(c)).body
        except APIError as e:
            if e.status != 416:
                raise
            return b""  # the file ends before the offset

    async def write_file(self, path: str, data: bytes | str) -> None:
        """Writes a file of at most 16 MiB, with the directories above it."""
        await self._put(path, content("data", data), FOREVER)

    async def _put(self, path: str, data: bytes, deadline: Deadline) -> None:
        headers = {"Content-Type": "application/octet-stream"}
        await self._ask(Call("PUT", self._path("/files/" + place(path)), headers=headers, body=data), deadline)

    async def export_artifacts(self) -> models.Export:
        """Exports the artifacts that the policy names, in their state between two executions. They outlive the
        session."""
        c = Call("POST", self._path("/artifacts"), once=True, wait=LONGEST)
        return models.Export.from_dict((await self._ask(c)).json())

    async def artifacts(self) -> models.Export:
        """The last exported artifacts, on request or at the end of the session."""
        return models.Export.from_dict((await self._transport.send(Call("GET", self._path("/artifacts")))).json())

    async def read_artifact(self, path: str) -> bytes:
        """An exported artifact, by its path in the sandbox, at most 64 MiB."""
        return (await self._transport.send(Call("GET", self._path("/artifacts/" + place(path))))).body

    def _path(self, end: str = "") -> str:
        return f"/v1/sessions/{segment(self.id)}{end}"

    async def _write(self, end: str, value: Any) -> None:
        await self._ask(Call("PUT", self._path(end), headers={"Content-Type": JSON}, body=encode(to_json(value))))

    def _guard(self) -> None:
        """RuntimeError in a function that answers a call of this session: it would wait for itself."""
        if answering(self.id):
            raise RuntimeError("the session waits for this function: it cannot be used until that has returned")
        if self._host is not None and not self._closed:
            self._background.ensure(self._host)

    async def _ask(self, c: Call, deadline: Deadline = FOREVER) -> Answer:
        self._guard()
        return await self._transport.send(c, deadline)
