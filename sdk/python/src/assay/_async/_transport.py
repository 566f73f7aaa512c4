"""HTTP requests, repeated while their outcome is unknown."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import httpx

from .._calls import Call, Patience, wrong
from .._config import Config
from .._errors import AnswerTooLarge, APIError, AssayError, ClosedError, NotFoundError, Timeout, Unreachable
from .._forking import after_fork
from .._units import Deadline
from ._concurrency import context, ended, sleep

FOREVER = Deadline(None)


class Answer(NamedTuple):
    """A complete answer; its status is 2xx or 304."""

    status: int
    headers: httpx.Headers
    body: bytes

    def json(self) -> Any:
        """The decoded body; None if it is empty. AssayError if it is not JSON."""
        try:
            return json.loads(self.body) if self.body else None
        except ValueError as e:
            raise AssayError(f"an answer is not JSON, so it is not a fleet's: {self.body[:100]!r}") from e


class AsyncTransport:
    """The connections to one fleet. It may be shared by any number of callers, and survives forks and event loops:
    connections belong to the process and the loop that opened them, and others open new ones."""

    def __init__(self, config: Config, mock: httpx.AsyncBaseTransport | None = None) -> None:
        self.config = config
        self.mock = mock
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._pools: weakref.WeakKeyDictionary[Any, httpx.AsyncClient] = weakref.WeakKeyDictionary()
        self._closed = False
        self._left: list[Any] = []  # a parent's pools: closing them here would write to the parent's connections
        after_fork(self)

    def forked(self) -> None:
        """Called in the child of a fork, which has no other threads."""
        self._left.append(self._pools)
        self._lock, self._pid = threading.Lock(), os.getpid()
        self._pools = weakref.WeakKeyDictionary()

    def _pool(self) -> httpx.AsyncClient:
        here = context()
        with self._lock:
            pool = self._pools.get(here)
            if pool is None or pool.is_closed:
                for other in [c for c in self._pools if ended(c)]:
                    del self._pools[other]
                pool = self._pools[here] = httpx.AsyncClient(
                    headers=self.config.headers(),
                    limits=httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=30.0),
                    trust_env=not self.config.local,
                    transport=self.mock,
                )
            return pool

    def check_open(self) -> None:
        """Raises ClosedError after aclose."""
        if self._closed:
            raise ClosedError("this client is closed: make another one, or move the call into its with block")

    def reopen(self) -> None:
        """Permits requests again after aclose."""
        self._closed = False

    async def aclose(self) -> None:
        """Closes the connections of this loop. Later requests raise ClosedError, until reopen is called."""
        self._closed = True
        with self._lock:
            pool = self._pools.pop(context(), None)
        if pool is not None:
            await pool.aclose()

    async def send(self, c: Call, deadline: Deadline = FOREVER) -> Answer:
        """Repeats a call until its outcome is known, or the patience or the deadline is over.

        Raises APIError, Unreachable, Timeout or AnswerTooLarge.
        """
        patience = Patience(0.0 if c.once else self.config.patience)
        while True:
            try:
                return await self._once(c, deadline)
            except APIError as e:
                error, asked = e, e.retry_after
                if not e.passing:
                    raise
            except httpx.TransportError as e:
                if deadline.over:
                    raise Timeout(f"{c.method} {c.path}: no answer within {deadline.given} s") from e
                error, asked = Unreachable(f"{self.config.url} does not answer: {describe(e)}"), None
                error.__cause__ = e
            pause = patience.pause(asked)
            if pause is None:
                raise error
            if deadline.left(pause) < pause:
                raise Timeout(f"{c.method} {c.path}: no answer within {deadline.given} s: {error}") from error
            await sleep(pause)

    async def has(self, c: Call) -> bool:
        """Whether the object of a call exists."""
        try:
            await self.send(c)
        except NotFoundError:
            return False
        return True

    async def _once(self, c: Call, deadline: Deadline) -> Answer:
        async with self._stream(c, deadline) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                if deadline.over:
                    raise Timeout(f"{c.method} {c.path}: no whole answer within {deadline.given} s")
                if len(body) > c.most:
                    raise AnswerTooLarge(f"{c.method} {c.path}: the answer has more than {c.most} bytes")
            if response.is_error:
                raise wrong(response.status_code, response.headers, bytes(body))
            return Answer(response.status_code, response.headers, bytes(body))

    @asynccontextmanager
    async def _stream(self, c: Call, deadline: Deadline) -> AsyncGenerator[httpx.Response, None]:
        self.check_open()
        if deadline.over:
            raise Timeout(f"{c.method} {c.path}: not done within {deadline.given} s")
        content = c.body if c.body is None or isinstance(c.body, bytes) else pieces(c.body)
        timeout = c.timeout
        if deadline.at is not None:
            timeout = httpx.Timeout(deadline.left(timeout.read or 0.0), pool=None)
        async with self._pool().stream(
            c.method, self.config.url + c.path, params=c.query, headers=c.headers, content=content, timeout=timeout
        ) as response:
            yield response

    @asynccontextmanager
    async def open(self, c: Call) -> AsyncGenerator[httpx.Response, None]:
        """An answer that is read as it arrives, once. Raises APIError or Unreachable."""
        try:
            async with self._stream(c, FOREVER) as response:
                if response.is_error:
                    raise wrong(response.status_code, response.headers, await beginning(response))
                yield response
        except httpx.TransportError as e:
            raise Unreachable(f"{self.config.url} does not answer: {describe(e)}") from e

    async def events(self, c: Call) -> AsyncIterator[tuple[str, Any]]:
        """Server-sent events, each with its kind and its data, until the server ends the stream."""
        async with self.open(c) as response:
            kind = ""
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    kind = line[7:]
                elif line.startswith("data: "):
                    yield kind, json.loads(line[6:])


async def beginning(response: httpx.Response, most: int = 1 << 20) -> bytes:
    """The beginning of an answer, enough for the fleet's error messages."""
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        if len(body) >= most:
            break
    return bytes(body[:most])


async def pieces(file: Any) -> AsyncIterator[bytes]:
    """The pieces of a file, from its beginning."""
    file.seek(0)
    while piece := file.read(256 << 10):
        yield piece


def describe(e: Exception) -> str:
    return str(e) or type(e).__name__
