"""The configuration of a client: its fleet and its patience."""

from __future__ import annotations

import ipaddress
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from ._units import Seconds, number, seconds

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True)
class Config:
    """Checked configuration of a client. Its repr omits the token."""

    url: str
    token: str = field(repr=False)
    patience: float  # seconds

    @property
    def local(self) -> bool:
        """Whether the fleet is on this machine: then there is no compression and no proxy."""
        return urlsplit(self.url).hostname in ("localhost", "127.0.0.1", "::1")

    def headers(self) -> dict[str, str]:
        out = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if self.local:
            out["Accept-Encoding"] = "identity"
        return out


def _local_token(parts: SplitResult) -> str:
    """The token that `assay dev` stores for a fleet at a local address, or ""."""
    try:
        if parts.hostname != "localhost" and not ipaddress.ip_address(parts.hostname or "").is_loopback:
            return ""
        port = parts.port or (443 if parts.scheme == "https" else 80)
        base = os.environ.get("XDG_CONFIG_HOME", "")
        config = Path(base) if os.path.isabs(base) else Path.home() / ".config"
        with open(config / "assay" / "tokens" / str(port), encoding="ascii") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) or mode & 0o077:
                return ""
            return file.read(1024).strip()
    except (OSError, ValueError, RuntimeError):  # no stored token, no address, or no home
        return ""


def configured(url: str | None, token: str | None, patience: Seconds | None) -> Config:
    """The configuration from the arguments, else from the environment: ASSAY_URL, ASSAY_TOKEN, ASSAY_PATIENCE.

    Without a token, it uses that of a local `assay dev` fleet at this address, if there is one. ValueError names an
    invalid address, token or duration.
    """
    where = (url if url is not None else os.environ.get("ASSAY_URL") or DEFAULT_URL).rstrip("/")
    parts = urlsplit(where)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"url (ASSAY_URL): {where!r} must be the address of a fleet, such as {DEFAULT_URL}")
    if parts.path.endswith("/v1"):
        raise ValueError(f"url (ASSAY_URL): {where!r} must end before /v1, which the client adds: {where[:-3]!r}")
    if parts.username or parts.password:
        raise ValueError(
            "url (ASSAY_URL): an address has no user and password; give the token as token= or ASSAY_TOKEN"
        )
    secret = (token if token is not None else os.environ.get("ASSAY_TOKEN", "")).strip() or _local_token(parts)
    if not secret.isascii() or any(c.isspace() or not c.isprintable() for c in secret):
        raise ValueError("token (ASSAY_TOKEN): must be printable ASCII without blanks")
    if patience is None:
        text = os.environ.get("ASSAY_PATIENCE", "")
        patience = seconds(text) if text else 30.0
    patient = number("patience", patience) or 0.0
    if patient < 0:
        raise ValueError("patience: must not be negative")
    return Config(where, secret, patient)
