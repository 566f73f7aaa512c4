"""One request of the API, as data, and what its answers mean: what both clients share and neither does."""

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
"""Seconds of one long poll of a longer wait: proxies cut silent connections."""

GRACE = 60.0
"""Seconds that an answer may take beyond what it was asked to wait."""

MOST = 64 << 20
"""Bytes of an answer that are held in memory. A page of results has 8 MiB, or one result of at most 32."""


@dataclass(slots=True)
class Call:
    """A request that can be made several times."""

    method: str
    path: str  # quoted
    query: dict[str, Any] = field(default_factory=dict[str, Any])
    headers: dict[str, str] = field(default_factory=dict[str, str])
    body: bytes | BinaryIO | None = None  # a file is read from its beginning, each time
    once: bool = False  # it must not be made twice
    wait: float = 0.0  # seconds for which the server was asked to hold its answer
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
    """A call with a JSON body. A POST gets an idempotency key of its own, unless it must be made once."""
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
    """A value as JSON. TypeError and ValueError say what JSON cannot have: NaN is one of these."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def segment(text: str) -> str:
    """Text as one part of a path."""
    return quote(text, safe="")


def pathname(text: str) -> str:
    """A path inside a sandbox as the end of a path of the API."""
    return quote(text.lstrip("/"), safe="/")


def wrong(status: int, headers: httpx.Headers, body: bytes) -> APIError:
    """The error that an answer means."""
    problem: Mapping[str, Any] | None = None
    if headers.get("Content-Type", "").split(";")[0].strip() == PROBLEM:
        try:
            read = json.loads(body)
            problem = cast("Mapping[str, Any]", read) if isinstance(read, dict) else None
        except ValueError:
            pass  # cut short on its way; the status is left
    return api_error(status, problem, retry_after(headers))


def retry_after(headers: httpx.Headers) -> float | None:
    """What Retry-After says, in seconds, at most a day; None if it says nothing."""
    text = headers.get("Retry-After", "").strip()
    if text.isdigit():
        return float(min(int(text), 24 * 3600))
    try:
        return max(email.utils.parsedate_to_datetime(text).timestamp() - time.time(), 0.0) if text else None
    except ValueError:
        return None


class Patience:
    """When to make a call again: for so many seconds after its first failure, later and later.

    A server that says when to come again is taken at its word. Many may have been told the same, so it takes up to a
    quarter more.
    """

    __slots__ = ("_failed", "_pause", "_seconds")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failed: float | None = None
        self._pause = 0.1

    def pause(self, asked: float | None) -> float | None:
        """Seconds to wait before the next try, None if there is to be none."""
        now = time.monotonic()
        if self._failed is None:
            self._failed = now
        wait = asked * (1 + random.random() / 4) if asked else self._pause * (0.5 + random.random())
        self._pause = min(self._pause * 1.5, 3.0)
        return wait if now - self._failed + (asked or 0.0) < self._seconds else None
