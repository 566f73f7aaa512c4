"""Inspect AI: the sandbox "assay", a sandbox of the fleet for each sample.

    Task(..., sandbox="assay")
    Task(..., sandbox=("assay", "assay.yaml"))
    Task(..., sandbox=SandboxEnvironmentSpec("assay", AssaySandboxConfig(image="swe:1", policy={"memory": "2Gi"})))

Inspect finds it by the entry point of this package. ASSAY_URL and ASSAY_TOKEN select the fleet.
"""

from __future__ import annotations

import contextlib
import errno
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, Literal, cast, overload

import yaml
from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
    sandboxenv,
)
from pydantic import BaseModel, ConfigDict

from .._async._client import AsyncClient
from .._async._sandbox import AsyncSandbox
from .._errors import AssayError, ConflictError, NotFoundError
from .._processes import Completed

LABEL = "inspect_ai"
"""Label of the sessions of Inspect's sandboxes; its value is the name of the task."""

WRITE = ("/workspace", "/tmp", "/var/tmp")
"""Default writable directories: Inspect puts its own tools into the last."""


class AssaySandboxConfig(BaseModel):
    """The configuration of sandboxes.

    Attributes:
        policy: laid over assay.SANDBOX_POLICY, or the name of a stored policy.
        image: file system of programs, with a python3; "python" by default.
        env: variables of all commands.
        cwd: directory of commands and relative paths; /workspace by default.
        pool: of workers.
        labels: of the sandboxes' sessions.
        url: of the fleet; ASSAY_URL by default. The token is ASSAY_TOKEN, never in a file.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    policy: dict[str, Any] | str | None = None
    image: str | None = None
    env: dict[str, str] | None = None
    cwd: str | None = None
    pool: str | None = None
    labels: dict[str, str] | None = None
    url: str | None = None

    def __hash__(self) -> int:
        """Inspect uses it to distinguish configurations."""
        return hash(self.model_dump_json())

    @classmethod
    def read(cls, config: SandboxEnvironmentConfigType | None) -> AssaySandboxConfig:
        """The configuration of a task: a model, or a file of YAML or JSON."""
        if config is None:
            return cls()
        if isinstance(config, cls):
            return config
        if isinstance(config, str):
            text = Path(config).read_text(encoding="utf-8")
            found = json.loads(text) if config.endswith(".json") else yaml.safe_load(text)
            if not isinstance(found, dict):
                raise ValueError(f"{config}: the configuration of a sandbox is an object, such as {{image: python}}")
            return cls(**cast("dict[str, Any]", found))
        raise TypeError(f"the configuration of the sandbox assay is an AssaySandboxConfig, not {type(config).__name__}")

    def laid_over(self) -> dict[str, Any] | str:
        """The policy, with the writable directories."""
        return self.policy if isinstance(self.policy, str) else {"write": list(WRITE), **(self.policy or {})}


@sandboxenv(name="assay")
class AssaySandboxEnvironment(SandboxEnvironment):
    """One sandbox of the fleet."""

    def __init__(self, client: AsyncClient, sandbox: AsyncSandbox) -> None:
        super().__init__()
        self.client = client
        self.sandbox = sandbox

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Implements SandboxEnvironment. The timeout is the command's own, so it is not retried."""
        if user not in (None, "1000"):
            raise SandboxUserUnsupportedError(f"programs are user 1000 of their sandbox: they cannot be {user!r}")
        limit = SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE
        try:
            with unavailable():
                done = await self.sandbox.exec(cmd, stdin=input, cwd=cwd, env=env, timeout=timeout, limit=limit)
        except PermissionError:
            raise
        except OSError as e:  # the command failed: it or its directory does not exist
            return ExecResult(False, 127 if e.errno == errno.ENOENT else 126, "", f"{cmd[0]}: {e}\n")
        if done.timed_out:
            raise timed_out(done, timeout)
        if done.truncated:
            written = text(max(done.stdout, done.stderr, key=len))
            raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, written)
        code = done.exit_code if done.exit_code >= 0 else 128 - done.exit_code
        return ExecResult(code == 0, code, text(done.stdout), text(done.stderr))

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Implements SandboxEnvironment. A path that the policy does not make writable is a PermissionError, too."""
        try:
            with unavailable():
                await self.sandbox.write_file(file, contents)
        except OSError as e:
            if e.errno == errno.EROFS:
                raise PermissionError(errno.EACCES, "the policy's write does not name it", file) from e
            raise

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        """Implements SandboxEnvironment."""
        try:
            with unavailable():
                data = await self.sandbox.read_file(file, limit=SandboxEnvironmentLimits.MAX_READ_FILE_SIZE)
        except NotADirectoryError as e:
            raise FileNotFoundError(errno.ENOENT, "one of its directories is a file", file) from e
        except OSError as e:
            if e.errno == errno.EFBIG:
                raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None) from e
            raise
        return data.decode() if text else data

    def default_polling_interval(self) -> float:
        """Seconds between Inspect's polls of its tools in the sandbox."""
        return 0.5

    @classmethod
    def default_concurrency(cls) -> int | None:
        """Most sandboxes at once, for which a small fleet has room. --max-sandboxes overrides it."""
        return 16

    @classmethod
    def config_files(cls) -> list[str]:
        return ["assay.yaml", "assay.yml", "assay.json"]

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return AssaySandboxConfig(**config)

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        """Checks, before any sample, that the fleet is reachable and accepts the token and the policy.

        Raises APIError, Unreachable or ValueError with the fault.
        """
        given = AssaySandboxConfig.read(config)
        async with AsyncClient(given.url) as client:
            policy = given.laid_over()
            if isinstance(policy, str):
                await client.api.get_policy(policy)
            else:
                explained = await client.api.explain_policy(policy, program="session")
                if explained.refused:
                    raise ValueError(f"the sandbox's policy: {explained.refused}")

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        given = AssaySandboxConfig.read(config)
        client = AsyncClient(given.url)
        try:
            sandbox = client.sandbox(
                policy=given.laid_over(), image=given.image, env=given.env, cwd=given.cwd, pool=given.pool,
                name=f"inspect {task_name}"[:256], labels={**(given.labels or {}), LABEL: task_name[:64]},
            )  # fmt: skip
            return {"default": cls(client, await sandbox.start())}
        except BaseException:
            await client.aclose()
            raise

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            one = environment.as_type(AssaySandboxEnvironment)
            await one.sandbox.aclose()
            await one.client.aclose()

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        """Ends the sandbox of this id, or all of Inspect's."""
        async with AsyncClient() as client:
            for session in (await client.api.list_sessions(state="live")).sessions:
                if LABEL in (session.spec.labels or {}) and id in (None, session.id):
                    with contextlib.suppress(ConflictError, NotFoundError):
                        await client.api.close_session(session.id)


@contextlib.contextmanager
def unavailable() -> Generator[None, None, None]:
    """Turns errors of the fleet, or of an ended sandbox, into an error of Inspect: they are no program's result."""
    try:
        yield
    except AssayError as e:
        raise SandboxUnavailableError(f"{type(e).__name__}: {e}") from e


def text(output: bytes) -> str:
    return output.decode("utf-8", "replace")


def timed_out(done: Completed, timeout: float | None) -> TimeoutError:
    """With the output until then, which Inspect shows to the model."""
    error = TimeoutError(f"Command timed out after {timeout} seconds")
    if written := text(done.stdout + done.stderr):
        error.__dict__["truncated_output"] = written
    return error
