"""Builds the API's sessions, and checks names in them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

from . import models
from ._arguments import LabelValue, labeled
from ._calls import JSON, Call, encode, pathname, segment
from ._functions import ANY, Functions, HostFunction
from ._jobs import PolicyLike
from ._units import Seconds, duration, seconds
from ._values import Encoder
from .models import to_json

SLACK = 600.0
"""Seconds that the fleet may take for an execution beyond its wall: to wait for its turn, and to interrupt it."""

LONGEST = 240.0
"""Seconds that an export may take. The end of a session includes one."""

FAREWELL = 10.0
"""Seconds for ending all sessions of a closed client."""

LARGEST = 256 << 20
"""Bytes of the answer of an execution: 17 MiB of JSON for each stream, both in order, and displayed items."""


MOST_VARIABLE = 16 << 20
"""Most bytes of a variable."""


def session_spec(
    *,
    kind: Literal["python", "shell"] = "python",
    policy: PolicyLike | None = None,
    image: str | None = None,
    name: str | None = None,
    labels: Mapping[str, LabelValue] | None = None,
    pool: str | None = None,
    idle_timeout: Seconds | None = None,
    lease: Seconds | None = None,
) -> dict[str, Any]:
    """A session as in the API.

    A python session whose policy has no callbacks may call any function of the client.
    """
    allowed: Any = to_json(policy)
    if kind == "python" and not isinstance(allowed, str):
        inline: dict[str, Any] = allowed or {}
        allowed = {"callbacks": {"allow": [ANY]}, **inline}
    out: dict[str, Any] = {"kind": kind, "policy": allowed, "image": image, "name": name, "pool": pool}
    out["labels"] = labeled(labels) or None
    for field, value in (("idle_timeout", idle_timeout), ("lease", lease)):
        out[field] = None if value is None else duration(value, field)
        if value is not None and seconds(out[field]) <= 0:
            raise ValueError(f"{field}: must be positive, or None")
    return {k: v for k, v in out.items() if v is not None}


def allowed_names(policy: Any) -> list[str]:
    """Names of functions that a policy allows; any for a stored policy, which only the fleet can read."""
    if not isinstance(policy, Mapping):
        return [ANY]
    callbacks: Mapping[str, Any] = cast("Mapping[str, Any]", policy).get("callbacks") or {}
    allowed: list[str] = callbacks.get("allow") or []
    return list(allowed)


def wall_of(session: models.Session) -> float:
    """Seconds that an execution may take, by the policy."""
    policy: Mapping[str, Any] = session.spec.policy or {}
    return seconds(policy.get("wall") or "10s")


def variable(name: str) -> str:
    """A variable name for a path. Python normalizes identifiers to the Unicode form NFKC."""
    if not (isinstance(name, str) and name.isidentifier()):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"name: {name!r:.80} is not the name of a variable")
    return segment(unicodedata.normalize("NFKC", name))


def assignment(path: str, name: str, value: Any) -> Call:
    """The call that sets a variable. UnsendableError if the value is of a type that cannot cross."""
    encoder = Encoder(room=MOST_VARIABLE)
    body = encode(encoder.encode(value, name))
    return Call("PUT", path, {"tagged": "true"} if encoder.tagged else {}, {"Content-Type": JSON}, body)


def place(path: str) -> str:
    """The path of a file, for a path of the API."""
    if not isinstance(path, str) or not path.startswith("/"):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ValueError(f"path: {path!r:.200} must be absolute, such as /workspace/in.txt")
    return pathname(path)


def given(functions: Mapping[str, HostFunction] | Iterable[HostFunction] | None, spec: Mapping[str, Any]) -> Functions:
    """The functions of a new session."""
    if spec["kind"] != "python" and functions:
        raise ValueError("functions: only python sessions have host functions")
    return Functions(functions, allowed_names(spec.get("policy")) if spec["kind"] == "python" else [])
