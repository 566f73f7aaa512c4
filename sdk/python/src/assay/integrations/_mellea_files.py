"""Files of mellea's executions: sent with a job, or left by the previous job."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path

from .. import models
from .._result import Result
from .._sync._client import Client
from .mellea_policy import FleetCapabilityPolicy, covered

INLINE = 512 << 10
"""Bytes of files that are sent within a job; further files are uploaded first, each once."""

MOST = 1 << 30
"""Most bytes of all files beneath filesystem_read_roots together."""


class Files:
    """Files by their paths in the sandbox: local contents, or artifacts of the previous job."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._here: dict[str, bytes] = {}
        self._left: dict[str, models.Artifact] = {}
        self._job = ""
        self._uploaded: set[str] = set()

    def put(self, path: str, data: bytes) -> None:
        """Sets the content of a path, from the next job on."""
        self._here[path] = data
        self._left.pop(path, None)

    def get(self, path: str) -> bytes:
        """The content of a path; FileNotFoundError if there is none."""
        if path in self._here:
            return self._here[path]
        if path not in self._left:
            raise FileNotFoundError(f"no file {path} was left where programs may write")
        return self._client.api.get_artifact(self._job, self._left[path].path).body

    def adopt(self, done: Result, write: list[str], script: str) -> None:
        """Replaces the files in writable directories by the files that a job left there."""
        self._job = done.id
        self._left = {a.path: a for a in done.record.artifacts or [] if a.path != script}
        self._here = {path: data for path, data in self._here.items() if not covered(path, write)}

    def forget(self) -> None:
        """Drops all files."""
        self._here, self._left, self._job = {}, {}, ""

    def job(self, roots: Mapping[str, Path], more: Mapping[str, bytes]) -> tuple[dict[str, dict[str, str]], int]:
        """All files, and the given local ones, as in a job, and their number of bytes."""
        out = {path: {"blob": self._again(path)} for path in self._left}
        room, size = INLINE, sum(a.bytes for a in self._left.values())
        for path, data in chain(more.items(), self._contents(roots)):
            size += len(data)
            if len(data) <= room:
                room -= len(data)
                out[path] = {"base64": base64.b64encode(data).decode()}
            else:
                out[path] = {"blob": self._upload(data)}
        return out, size

    def _contents(self, roots: Mapping[str, Path]) -> Iterator[tuple[str, bytes]]:
        yield from ((path, source.read_bytes()) for path, source in roots.items() if path not in self._left)
        yield from self._here.items()

    def _again(self, path: str) -> str:
        digest = f"sha256:{self._left[path].sha256.removeprefix('sha256:')}"
        return digest if digest in self._uploaded else self._upload(self.get(path))

    def _upload(self, data: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
        if digest not in self._uploaded and not self._client.api.head_blob(digest):
            self._client.api.put_blob(digest, data)
        self._uploaded.add(digest)
        return digest


def read_roots(policy: FleetCapabilityPolicy) -> dict[str, Path]:
    """The files beneath filesystem_read_roots, by their paths. Links that lead out of the roots are not followed.

    Raises:
        ValueError: they exceed the size for a sandbox.
        OSError: a file beneath them cannot be read.
    """
    roots = [Path(root).absolute() for root in policy.filesystem_read_roots or ()]
    inside = [str(root.resolve()) for root in roots]
    found = {str(f): f for root in roots for f in _files(root) if f.is_file() and covered(str(f.resolve()), inside)}
    size = sum(f.stat().st_size for f in found.values())
    if size > MOST:
        raise ValueError(f"filesystem_read_roots: have {size} bytes, and a sandbox is given {MOST} at most")
    return found


def _files(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
    for directory, _, names in os.walk(root, onerror=_raise):
        yield from (Path(directory) / name for name in names)


def _raise(error: OSError) -> None:
    raise error
