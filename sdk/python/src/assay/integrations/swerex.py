"""SWE-ReX: a deployment that is a sandbox of a fleet, and its runtime.

    deployment = AssayDeployment(image="python")
    await deployment.start()
    await deployment.runtime.create_session(CreateBashSessionRequest())
    await deployment.runtime.run_in_session(BashAction(command="cd /tmp && export X=1"))
    await deployment.stop()

Calls may come from one event loop after another, as SWE-agent's do.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict
from swerex.deployment.abstract import AbstractDeployment
from swerex.deployment.hooks.abstract import CombinedDeploymentHook, DeploymentHook
from swerex.exceptions import (
    CommandTimeoutError,
    DeploymentNotStartedError,
    DeploymentStartupError,
    NonZeroExitCodeError,
    SessionDoesNotExistError,
    SessionExistsError,
    SwerexException,
)
from swerex.runtime.abstract import (
    AbstractRuntime,
    Action,
    BashInterruptAction,
    CloseBashSessionResponse,
    CloseResponse,
    CloseSessionRequest,
    CloseSessionResponse,
    Command,
    CommandResponse,
    CreateBashSessionRequest,
    CreateBashSessionResponse,
    CreateSessionRequest,
    CreateSessionResponse,
    IsAliveResponse,
    Observation,
    ReadFileRequest,
    ReadFileResponse,
    UploadRequest,
    UploadResponse,
    WriteFileRequest,
    WriteFileResponse,
)
from swerex.utils.log import get_logger

from .._default import default_client
from .._errors import AssayError
from .._sync._client import Client
from .._sync._process import Process
from .._sync._sandbox import Sandbox
from ._swerex_bash import WAIT, BashSession

__all__ = ["AssayDeployment", "AssayDeploymentConfig", "AssayRuntime"]

T = TypeVar("T")

PATHS = 500
"""Paths of one command."""


class AssayDeploymentConfig(BaseModel):
    """Configuration of a sandbox of a fleet: see client.sandbox."""

    image: str | None = None
    """File system of commands, with a python3 and a bash; default "python"."""
    policy: dict[str, Any] | str | None = None
    """Permissions and limits of commands; see docs/policy.md."""
    name: str | None = None
    labels: dict[str, str] = {}
    env: dict[str, str] = {}
    """Variables of all commands."""
    cwd: str | None = None
    """Directory of commands and relative paths."""
    url: str | None = None
    """Address of the fleet; default as of assay.run. The token is ASSAY_TOKEN."""
    startup_timeout: float = 180.0
    """Seconds that the sandbox may take to start."""
    lease: float | None = 60.0
    """Seconds for which it continues after the death of this process."""

    type: Literal["assay"] = "assay"

    model_config = ConfigDict(extra="forbid")

    def get_deployment(self) -> AbstractDeployment:
        return AssayDeployment.from_config(self)


class AssayRuntime(AbstractRuntime):
    """Sessions, commands and files of one sandbox.

    Faults of programs are in its responses, or raise one of swerex.exceptions. OSError is about a file, or a
    command that cannot be started. Failures of the fleet raise assay's errors.
    """

    def __init__(self, sandbox: Sandbox, *, logger: logging.Logger | None = None) -> None:
        self.logger = logger or get_logger("rex-runtime")
        self._sandbox = sandbox
        self._sessions: dict[str, BashSession] = {}

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        """Runs a trivial command; false, with the reason, if that fails or takes longer than timeout seconds."""
        try:
            await asyncio.wait_for(_call(lambda gone: self._wait(Command(command=["true"]), gone)), timeout)
        except asyncio.TimeoutError:
            return IsAliveResponse(is_alive=False, message=f"no answer within {timeout} seconds")
        except (AssayError, OSError, ValueError, CommandTimeoutError) as e:
            return IsAliveResponse(is_alive=False, message=str(e))
        return IsAliveResponse(is_alive=True)

    async def create_session(self, request: CreateSessionRequest) -> CreateSessionResponse:
        if request.session in self._sessions:
            raise SessionExistsError(f"session {request.session} already exists")
        if not isinstance(request, CreateBashSessionRequest):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"unknown session type: {request!r}")
        session = self._sessions[request.session] = BashSession(self._sandbox, request)
        try:
            return CreateBashSessionResponse(output=await _call(session.start))
        except BaseException:
            self._sessions.pop(request.session, None)
            await _call(lambda _: session.close())
            raise

    async def run_in_session(self, action: Action) -> Observation:
        session = self._session(action.session)
        if isinstance(action, BashInterruptAction):
            return await _call(lambda gone: session.interrupt(action, gone))
        return await _call(lambda gone: session.run(action, gone))

    async def close_session(self, request: CloseSessionRequest) -> CloseSessionResponse:
        session = self._session(request.session)
        del self._sessions[request.session]
        await _call(lambda _: session.close())
        return CloseBashSessionResponse()

    async def execute(self, command: Command) -> CommandResponse:
        """Runs a command outside of the sessions.

        Raises:
            CommandTimeoutError: the time is over; it was killed with all of its processes.
            NonZeroExitCodeError: it failed, and check is true.
            OSError: it cannot be started.
        """
        code, out, err = await _call(lambda gone: self._wait(command, gone))
        r = CommandResponse(
            stdout=out.decode(errors="backslashreplace"), stderr=err.decode(errors="backslashreplace"), exit_code=code
        )
        if command.check and code != 0:
            text = (
                f"Command {command.command!r} failed with exit code {code}. "
                f"Stdout:\n{r.stdout!r}\nStderr:\n{r.stderr!r}"
            )
            raise NonZeroExitCodeError(f"{command.error_msg}: {text}" if command.error_msg else text)
        return r

    async def read_file(self, request: ReadFileRequest) -> ReadFileResponse:
        data = await _call(lambda _: self._sandbox.read_file(request.path))
        text = data.decode(request.encoding or "utf-8", request.errors or "strict")
        return ReadFileResponse(content=text.replace("\r\n", "\n").replace("\r", "\n"))

    async def write_file(self, request: WriteFileRequest) -> WriteFileResponse:
        await _call(lambda _: self._sandbox.write_file(request.path, request.content))
        return WriteFileResponse()

    async def upload(self, request: UploadRequest) -> UploadResponse:
        """Copies a local file or directory. It follows links and keeps the modes of files.

        Raises:
            OSError: a file or directory cannot be written, or its mode cannot be set.
        """
        source = Path(request.source_path)
        await _call(lambda gone: self._upload(source, request.target_path, gone))
        return UploadResponse()

    async def close(self) -> CloseResponse:
        """Ends the sandbox, with all its sessions."""
        self._sessions.clear()
        await _call(lambda _: self._sandbox.close())
        return CloseResponse()

    def _session(self, name: str) -> BashSession:
        if name not in self._sessions:
            raise SessionDoesNotExistError(f"session {name!r} does not exist")
        return self._sessions[name]

    def _wait(self, command: Command, gone: Callable[[], bool]) -> tuple[int, bytes, bytes]:
        """Runs a command until it ends, or its caller has gone."""
        given = command.command
        argv = ["sh", "-c", given] if command.shell and isinstance(given, str) else given
        argv = [argv] if isinstance(argv, str) else argv
        if command.shell and not isinstance(given, str):
            argv = ["sh", "-c", *given]
        if command.env is not None:
            argv = ["env", "-i", *(f"{k}={v}" for k, v in command.env.items()), *argv]
        if command.merge_output_streams:
            argv = ["sh", "-c", 'exec "$@" 2>&1', "sh", *argv]
        process = self._sandbox.spawn(argv, cwd=command.cwd, timeout=command.timeout)
        try:
            out, err = _drained(process, gone)
        except BaseException:
            process.kill()
            raise
        if process.timed_out:
            raise CommandTimeoutError(f"Timeout ({command.timeout}s) exceeded while running command")
        return process.wait(), out, err

    def _upload(self, source: Path, target: str, gone: Callable[[], bool]) -> None:
        modes: dict[int, list[str]] = {}
        for file, to in _files(source, target):
            if gone():
                return
            modes.setdefault(file.stat().st_mode & 0o777, []).append(self._put(to, file))
        for mode, files in modes.items():
            self._run(["chmod", f"{mode:o}"], files)
        if source.is_dir():
            empty = [
                f"{target}/{d.relative_to(source)}" for d in source.rglob("*") if d.is_dir() and not any(d.iterdir())
            ]
            self._run(["mkdir", "-p"], [target, *empty])

    def _run(self, command: list[str], paths: list[str]) -> None:
        """Runs a command for paths, several at a time; OSError if it fails."""
        for i in range(0, len(paths), PATHS):
            done = self._sandbox.exec([*command, "--", *paths[i : i + PATHS]])
            if not done.ok:
                raise OSError(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace').strip()}")

    def _put(self, target: str, file: Path) -> str:
        """Writes a file, and returns its path: within an existing directory, under its own name."""
        try:
            self._sandbox.write_file(target, file.read_bytes())
        except IsADirectoryError:
            target = f"{target.rstrip('/')}/{file.name}"
            self._sandbox.write_file(target, file.read_bytes())
        return target


class AssayDeployment(AbstractDeployment):
    """A sandbox of a fleet.

    Args:
        logger: of its own.
        client: the client, instead of the config's url.
        kwargs: see AssayDeploymentConfig.
    """

    def __init__(self, *, logger: logging.Logger | None = None, client: Client | None = None, **kwargs: Any) -> None:
        self.logger = logger or get_logger("rex-deploy")
        self._runtime: AssayRuntime | None = None
        self._config = AssayDeploymentConfig(**kwargs)
        self._client = client or (Client(self._config.url) if self._config.url else default_client())
        self._hooks = CombinedDeploymentHook()

    @classmethod
    def from_config(cls, config: AssayDeploymentConfig) -> AssayDeployment:
        return cls(**config.model_dump())

    def add_hook(self, hook: DeploymentHook) -> None:
        self._hooks.add_hook(hook)

    async def start(self, *args: Any, **kwargs: Any) -> None:
        """Starts the sandbox.

        Raises:
            DeploymentStartupError: the fleet refuses it, has no room for it, or takes too long.
        """
        if self._runtime is not None:
            return
        self._hooks.on_custom_step("Starting sandbox")
        c = self._config
        sandbox = self._client.sandbox(
            policy=c.policy, image=c.image, name=c.name, labels=c.labels, lease=c.lease, cwd=c.cwd, env=c.env
        )
        try:
            await asyncio.wait_for(_call(lambda _: sandbox.start()), c.startup_timeout)
        except asyncio.TimeoutError as e:
            threading.Thread(target=sandbox.close, daemon=True).start()
            raise DeploymentStartupError(f"no sandbox within {c.startup_timeout} seconds") from e
        except (AssayError, OSError, ValueError) as e:
            raise DeploymentStartupError(f"no sandbox: {e}") from e
        self._runtime = AssayRuntime(sandbox, logger=self.logger)
        self._hooks.on_custom_step("Sandbox started")

    async def stop(self, *args: Any, **kwargs: Any) -> None:
        """Ends the sandbox. Does nothing the second time."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            await runtime.close()

    async def is_alive(self, *, timeout: float | None = None) -> IsAliveResponse:
        return await self.runtime.is_alive(timeout=timeout)

    @property
    def runtime(self) -> AssayRuntime:
        if self._runtime is None:
            raise DeploymentNotStartedError
        return self._runtime


async def _call(f: Callable[[Callable[[], bool]], T]) -> T:
    """Runs a function in a thread, with a predicate that becomes true when the caller has gone.

    The sandbox is the synchronous client's, since an event loop may end between two calls.
    """
    gone = threading.Event()
    try:
        return await asyncio.to_thread(f, gone.is_set)
    except asyncio.CancelledError:
        gone.set()
        raise


def _drained(process: Process, gone: Callable[[], bool]) -> tuple[bytes, bytes]:
    """All output until the end. Above 64 MiB of a stream, the command is killed."""
    out, err = bytearray(), bytearray()
    while True:
        o, e = process.read(wait=WAIT)
        out += o
        err += e
        if not o and not e and process.exit_code is not None:
            return bytes(out), bytes(err)
        if gone():
            raise CommandTimeoutError("the wait for the command was canceled")
        if max(len(out), len(err)) > 64 << 20:
            raise SwerexException("the command was killed: it has written more than 64 MiB")


def _files(source: Path, target: str) -> Iterator[tuple[Path, str]]:
    """Files to upload, and their targets; FileNotFoundError if there are none."""
    if not source.is_dir():
        yield source, target
        return
    for file in sorted(source.rglob("*")):
        if file.is_file():
            yield file, f"{target.rstrip('/')}/{file.relative_to(source)}"
