"""One request of the API as data, and the interpretation of its answers. Both clients share this module, which does
no I/O."""

from __future__ import annotations

import email.utils
import json
import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast
from urllib.parse import quote

import httpx

from ._errors import APIError, api_error

JSON = "application/json"
NDJSON = "application/x-ndjson"
PROBLEM = "application/problem+json"

TURN = 50.0
"""Seconds of one long poll within a longer wait: proxies cut silent connections."""

GRACE = 60.0
"""Seconds that an answer may take beyond the requested wait."""

MOST = 64 << 20
"""Largest answer in memory, in bytes. A page of results has 8 MiB, or one result of at most 32."""


@dataclass(slots=True)
class Call:
    """A request that can be repeated."""

    method: str
    path: str  # quoted
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | BinaryIO | None = None  # a file is read from its beginning each time
    once: bool = False  # it must not be repeated
    wait: float = 0.0  # seconds for which the server may hold its answer
    most: int = MOST

    @property
    def timeout(self) -> httpx.Timeout:
        return httpx.Timeout(connect=10.0, read=self.wait + GRACE, write=GRACE, pool=None)


def call(
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    key: str | None = None,
    wait: float = 0.0,
    once: bool = False,
) -> Call:
    """A call with a JSON body. A POST gets an idempotency key of its own, unless it must not be repeated."""
    c = Call(method, path, {k: v for k, v in (query or {}).items() if v is not None}, once=once, wait=wait)
    if wait > 0:
        c.query["wait"] = f"{wait:.3f}s"
    if body is not None:
        c.headers["Content-Type"] = JSON
        c.body = encode(body)
    if key is not None or (method == "POST" and not once):
        c.headers["Idempotency-Key"] = key or str(uuid.uuid4())
    return c


def encode(value: Any) -> bytes:
    """A value as JSON. TypeError and ValueError name values that JSON cannot represent, such as NaN."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def segment(text: str) -> str:
    """Text as one segment of a path."""
    return quote(text, safe="")


def pathname(text: str) -> str:
    """A path inside a sandbox as the end of a path of the API."""
    return quote(text.lstrip("/"), safe="/")


def wrong(status: int, headers: httpx.Headers, body: bytes) -> APIError:
    """The error for an answer."""
    problem: Mapping[str, Any] | None = None
    if headers.get("Content-Type", "").split(";")[0].strip() == PROBLEM:
        try:
            read = json.loads(body)
            problem = cast("Mapping[str, Any]", read) if isinstance(read, dict) else None
        except ValueError:
            pass  # truncated on its way; the status remains
    return api_error(status, problem, retry_after(headers))


def retry_after(headers: httpx.Headers) -> float | None:
    """The value of Retry-After in seconds, at most a day; None if there is none."""
    text = headers.get("Retry-After", "").strip()
    if text.isdigit():
        return float(min(int(text), 24 * 3600))
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0) if text else None
    except ValueError:
        return None


class Patience:
    """The pauses between repeats of a call, for that many seconds after its first failure. Each is longer than the
    last.

    If the server requests a pause, it is followed. Many clients may get the same request, so a random part of up to
    a quarter is added.
    """

    __slots__ = ("_failed", "_pause", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failed: float | None = None
        self._pause = 0.1

    def pause(self, asked: float | None) -> float | None:
        """Seconds to wait before the next try, None if there is none."""
        now = time.monotonic()
        if self._failed is None:
            self._failed = now
        wait = asked * (1 + random.random() / 4) if asked else self._pause * (0.5 + random.random())
        self._pause = min(self._pause * 1.5, 3.0)
        return wait if now - self._failed + (asked or 0.0) < self._seconds else None
