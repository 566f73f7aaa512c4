"""verifiers: a Runtime on the fleet.

    async with provision(AssayConfig(image="swe:1")) as box:
        trace = await agent.run(task, runtime=box)

verifiers itself makes only runtimes of the kinds in its configuration, and no package can add a kind. An
AssayRuntime is a box that a run borrows. ASSAY_URL and ASSAY_TOKEN select the fleet.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager
from typing import Any, ClassVar, Literal

from pydantic import model_serializer
from pydantic_config import BaseConfig
from verifiers.v1.errors import SandboxError
from verifiers.v1.runtimes import BaseRuntimeInfo, ProgramResult, Runtime, RuntimeProcess, register

from .._async._client import AsyncClient
from .._async._process import AsyncProcess
from .._async._sandbox import AsyncSandbox
from .._errors import AssayError
from .._sync._client import Client

LOOK = 60.0
"""Seconds for which one read of a process's output waits."""


class AssayConfig(BaseConfig):
    """The configuration of a box. Resources have the units of verifiers: cores and GB."""

    type: Literal["assay"] = "assay"
    image: str = "python"
    """File system of programs, with a python3."""
    workdir: str | None = None
    """Directory of programs and relative paths; None is /workspace."""
    cpu: float | None = None
    memory: float | None = None
    disk: float | None = None
    """Files are in memory, so memory has to be larger than this."""
    policy: dict[str, Any] | None = None
    """Further fields of the policy, such as {"network": {"mode": "open"}}."""
    pool: str | None = None
    """Of workers."""
    local: bool = True
    """Whether programs can reach addresses of this host, as the policy's network allows. If not, they reach it
    through a tunnel of verifiers."""
    url: str | None = None
    """Of the fleet; ASSAY_URL by default. The token is ASSAY_TOKEN."""

    def whole_policy(self) -> dict[str, Any]:
        """The policy, with the resources."""
        sizes = {"memory": self.memory, "disk": self.disk}
        out: dict[str, Any] = {k: f"{round(v * 1000)}M" for k, v in sizes.items() if v is not None}
        return {**out, **({} if self.cpu is None else {"cpu": self.cpu}), **(self.policy or {})}


class AssayRuntimeInfo(AssayConfig, BaseRuntimeInfo):
    """A trace's description of a box in memory. It is serialized as null, as for no runtime: verifiers cannot read
    a trace with an unknown kind of runtime."""

    @model_serializer
    def _written(self) -> None:
        return None


class AssayProcess(RuntimeProcess):
    """A live process. Its streams are fetched as they are read, so unread streams do not block each other."""

    def __init__(self, process: AsyncProcess) -> None:
        self._process = process
        self._lock = asyncio.Lock()
        self._fetched = {"stdout": bytearray(), "stderr": bytearray()}
        self._over = False
        self.stdout = self._stream("stdout")
        self.stderr = self._stream("stderr")

    async def _stream(self, name: str) -> AsyncIterator[bytes]:
        have = self._fetched[name]
        while True:
            async with self._lock:
                if not have and not self._over:
                    await self._fetch()
            if have:
                piece = bytes(have)
                have.clear()
                yield piece
            elif self._over:
                return

    async def _fetch(self) -> None:
        with failing("read the output of a process"):
            out, err = await self._process.read(wait=LOOK)
        self._fetched["stdout"] += out
        self._fetched["stderr"] += err
        self._over = not out and not err and self._process.exit_code is not None

    async def write(self, data: bytes) -> None:
        """Raises BrokenPipeError if it has ended."""
        with failing("write to a process", BrokenPipeError):
            await self._process.write(data)

    async def wait(self) -> int:
        with failing("wait for a process"):
            return code(await self._process.wait())

    async def poll(self) -> int | None:
        with failing("look at a process"):
            found = await self._process.poll()
        return None if found is None else code(found)

    async def terminate(self) -> None:
        with failing("terminate a process"):
            await self._process.terminate()

    async def kill(self) -> None:
        with failing("kill a process"):
            await self._process.kill()


class AssayRuntime(Runtime):
    """A box on the fleet. Failures of the fleet are SandboxErrors, and never a ProgramResult."""

    supports_user: ClassVar[bool] = True  # with_user checks the user

    def __init__(self, config: AssayConfig, name: str | None = None) -> None:
        super().__init__(name)
        self.config = config
        self.is_local = config.local
        self.info = AssayRuntimeInfo(**config.model_dump())
        self._client: AsyncClient | None = None
        self._sandbox: AsyncSandbox | None = None
        self._users: set[str] = set()
        self._background: list[AsyncProcess] = []

    @property
    def sandbox(self) -> AsyncSandbox:
        """Its sandbox on the fleet. SandboxError: it is not started."""
        if self._sandbox is None:
            raise SandboxError("the box is not started, or was stopped")
        return self._sandbox

    async def start(self) -> None:
        c = self.config
        with failing("start a box"):
            self._client = AsyncClient(c.url)
            self._sandbox = self._client.sandbox(
                policy=c.whole_policy(), image=c.image, pool=c.pool, cwd=c.workdir, name=self.name[:256],
                labels={"verifiers": self.name[:64]},
            )  # fmt: skip
            await self._sandbox.start()
            self.config = c.model_copy(update={"workdir": self._sandbox.cwd})
            self.info = AssayRuntimeInfo(**self.config.model_dump(), id=self._sandbox.id)
            if c.workdir is not None:
                made = await self._sandbox.exec(["mkdir", "-p", "--", c.workdir], cwd="/")
                if not made.ok:
                    raise OSError(made.stderr.decode(errors="replace").strip() or f"mkdir {c.workdir} failed")
            whoami = await self._sandbox.exec("id -un; id -u", cwd="/")
        self._users = set(whoami.stdout.decode().split())

    async def run(self, argv: list[str], env: dict[str, str]) -> ProgramResult:
        """The exit code is as in a shell: 127 for a missing program, 128 plus the number of a signal."""
        with failing(f"run {argv[:1]}", OSError):
            try:
                done = await self.sandbox.exec(argv, env=self.process_env(env))
            except FileNotFoundError as e:
                return ProgramResult(127, "", f"{e}\n")
            except OSError as e:
                if isinstance(e, AssayError):
                    raise
                return ProgramResult(126, "", f"{e}\n")
        stderr = done.stderr.decode(errors="replace")
        if done.truncated:
            stderr += "\nkilled: it wrote more than a result may have\n"
        return ProgramResult(code(done.exit_code), done.stdout.decode(errors="replace"), stderr)

    async def open_process(self, argv: list[str], env: dict[str, str]) -> RuntimeProcess:
        with failing(f"start {argv[:1]}"):
            return AssayProcess(await self.sandbox.spawn(argv, env=self.process_env(env), stdin=True))

    async def run_background(self, argv: list[str], env: dict[str, str], log: str) -> None:
        command = ["sh", "-c", 'log=$1; shift; exec "$@" > "$log" 2>&1', "sh", log, *argv]
        with failing(f"start {argv[:1]}"):
            self._background.append(await self.sandbox.spawn(command, env=self.process_env(env)))

    async def _read(self, path: str, max_bytes: int | None = None) -> bytes:
        with failing(f"read {path!r}"):
            if max_bytes is None:
                return await self.sandbox.read_file(path)
            return await self.sandbox.read_head(path, max_bytes)

    async def write(self, path: str, data: bytes) -> None:
        with failing(f"write {path!r}"):
            await self.sandbox.write_file(path, data)

    def with_user(self, user: str | None, home: str | None = None) -> Runtime:
        """A view as the programs' only user: the image's name for user 1000. ValueError for other users."""
        if user is not None and user not in self._users:
            raise ValueError(f"programs of a box are user 1000, {sorted(self._users)}: they cannot be {user!r}")
        return super().with_user(user, home)

    async def expose(self, port: int) -> str:
        raise SandboxError("what listens in a box cannot be reached from outside: a box has no address")

    async def teardown(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.aclose()
            self._sandbox = None
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def cleanup(self) -> None:
        """Ends the box at the end of the interpreter, when no event loop is left. If it cannot, its lease does."""
        if self._sandbox is not None and self._sandbox.id:
            with contextlib.suppress(AssayError), Client(self.config.url, patience=0) as client:
                client.api.close_session(self._sandbox.id)
            self._sandbox = None


@asynccontextmanager
async def provision(
    config: AssayConfig | None = None, name: str | None = None, env: Mapping[str, str] | None = None
) -> AsyncGenerator[AssayRuntime, None]:
    """A started box for agent.run(task, runtime=box), which is stopped at the end."""
    box = AssayRuntime(config or AssayConfig(), name)
    register(box)
    box.env = dict(env or {})
    try:
        await box.start()
        yield box
    finally:
        await box.stop()


def code(number: int) -> int:
    """An exit code as in a shell."""
    return number if number >= 0 else 128 - number


@contextlib.contextmanager
def failing(what: str, *programs: type[OSError]) -> Generator[None, None, None]:
    """Turns errors into SandboxErrors, except those in programs, which are the program's."""
    try:
        yield
    except AssayError as e:
        raise SandboxError(f"{what}: {type(e).__name__}: {e}") from e
    except OSError as e:
        if isinstance(e, programs):
            raise
        raise SandboxError(f"{what}: {e}") from e
