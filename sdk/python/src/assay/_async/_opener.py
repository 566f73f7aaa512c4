"""The part of a client that opens sandboxes and sessions."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from .._arguments import LabelValue
from .._functions import ANY, Functions, HostFunction
from .._jobs import PolicyLike
from .._sessions import given, session_spec
from .._units import Seconds
from ._background import AsyncBackground
from ._sandbox import AsyncSandbox
from ._session import AsyncSession
from ._transport import AsyncTransport


class AsyncOpener:
    """Opens sandboxes and sessions of one fleet."""

    _transport: AsyncTransport
    _background: AsyncBackground
    _sessions: weakref.WeakSet[AsyncSession]

    def sandbox(
        self,
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
    ) -> AsyncSandbox:
        """A sandbox for processes and files. `with` or start() starts it.

        Args:
            policy: the limits of its programs, merged over assay.SANDBOX_POLICY. With import rules or
                without subprocesses, nothing can run.
            image: the file system of its programs, with a python3; by default "python".
            name, labels, pool: of its session.
            lease: seconds for which it continues after the death of this process; None: until idle_timeout.
            idle_timeout: seconds without use after which it ends, by default an hour.
            cwd: the directory of commands and relative paths, by default /workspace.
            env: variables of all its commands.
        """
        return AsyncSandbox(
            self._transport, policy=policy, image=image, name=name, labels=labels, pool=pool, lease=lease,
            idle_timeout=idle_timeout, cwd=cwd, env=env,
        )  # fmt: skip

    def session(
        self,
        *,
        kind: Literal["python", "shell"] = "python",
        functions: Mapping[str, HostFunction] | Iterable[HostFunction] | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, LabelValue] | None = None,
        pool: str | None = None,
        idle_timeout: Seconds | None = None,
        lease: Seconds | None = 60.0,
    ) -> AsyncSession:
        """A session: a live interpreter or a shell. A with statement or its start() starts it.

        Args:
            kind: the kind of code: snippets of Python, or scripts.
            functions: host functions, which its code calls and this process answers: callables by name, or callables
                with names. See AsyncSession.function.
            policy: its limits; wall, cpu_time, stdout and stderr are for each execution (docs/policy.md). Without
                callbacks in it, functions of every name may be called.
            image: its file system; default "python".
            name, labels, pool: as of a job.
            idle_timeout: seconds (or a duration, or a timedelta) without use after which it ends; default ten minutes.
            lease: the same, after the death of this process. None: it continues, also after this client is closed.

        Raises:
            TypeError, ValueError: a function is not callable, or has no usable name.
        """
        spec = session_spec(
            kind=kind, policy=policy, image=image, name=name, labels=labels, pool=pool, idle_timeout=idle_timeout,
            lease=lease,
        )  # fmt: skip
        return self._session(spec, given(functions, spec))

    def attach(self, id: str) -> AsyncSession:
        """An existing session, such as another process's. Its functions are the ones registered here."""
        return self._session({"kind": "python"}, Functions(None, [ANY]), id)

    def _session(self, spec: Mapping[str, Any], functions: Functions, id: str | None = None) -> AsyncSession:
        session = AsyncSession(self._transport, self._background, spec, functions, id)
        self._sessions.add(session)
        return session
