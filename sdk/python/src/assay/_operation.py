"""Builds the call of an operation of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ._calls import JSON, Call, call, encode, pathname, segment
from ._units import seconds
from .models import to_json

CHECK_WAIT = 60.0
"""Seconds for which an operation may hold its answer by default: POST /v1/check."""


def operation(
    method: str,
    template: str,
    *,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, Any] | None = None,
    header: Mapping[str, Any] | None = None,
    body: Any = None,
    content: str = JSON,
    once: bool = False,
) -> Call:
    """The call. It quotes parts of the path, omits None, and sends bodies other than bytes as JSON.

    If the document has an idempotency key, the call gets one, and is repeated while its outcome is unknown.
    """
    for name, text in (path or {}).items():
        template = template.replace(f"{{{name}}}", pathname(text) if name == "path" else segment(text))
    headers = {k: str(v) for k, v in (header or {}).items() if v is not None}
    c = call(method, template, query=query, key=headers.pop("Idempotency-Key", None), once=once)
    c.headers.update(headers)
    c.wait = seconds(c.query["wait"]) if "wait" in c.query else CHECK_WAIT
    if isinstance(body, (bytes, bytearray)):
        c.body, c.headers["Content-Type"] = bytes(body), content
    elif body is not None:
        c.body, c.headers["Content-Type"] = encode(to_json(body)), JSON
    return c
