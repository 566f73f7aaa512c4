"""mellea: an ExecutionEnvironment whose programs run on a fleet, under a policy that is enforced.

    from assay.integrations.mellea import AssayEnvironment

    env = AssayEnvironment(policy=CapabilityPolicy(timeout=10), allowed_imports=["math"])
    result = env.execute("import math; print(math.pi)")   # an ExecutionResult
    result.enforcement["network_access"]                  # the applied limit, and its mechanism
    env.tool()                                            # a MelleaTool

Each execution is a job in a sandbox of its own. Within a with statement, files persist between executions.
"""

from __future__ import annotations

import ast
import logging
import shutil
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from mellea.stdlib.tools.execution_policy import Artifact, CapabilityPolicy
from mellea.stdlib.tools.interpreter import ExecutionEnvironment, ExecutionResult

from .. import models
from .._default import default_client
from .._errors import InfraError
from .._result import Result
from .._sync._client import Client
from ._mellea_files import Files, read_roots
from .mellea_policy import DISK, FleetCapabilityPolicy, by_field, covered

if TYPE_CHECKING:
    from mellea.backends.tools import MelleaTool

__all__ = ["AssayEnvironment", "AssayResult", "FleetCapabilityPolicy"]

E = TypeVar("E", bound="AssayEnvironment")

logger = logging.getLogger(__name__)

MODE = "assay"
"""execution_mode of results."""

SCRIPT = "_program.py"
"""File name of the code, in its working directory."""

UNSET = "import os, sys; os.execve(sys.executable, [sys.executable, *sys.argv[1:]], {})"
"""Starts an interpreter without any environment variables."""

FULL = "policy.disk: "
"""Beginning of the fleet's message if it did not run a program because of its files."""

MARKER = "... [truncated]"
"""End of a truncated output, as in mellea's own environments."""


@dataclass
class AssayResult(ExecutionResult):
    """mellea's result, with further data of the fleet.

    Attributes:
        job: the whole result of the job; None if the code was not run.
        enforcement: the requested and applied value, the mechanism and the level, for each field of the policy.
    """

    job: Result | None = None
    enforcement: dict[str, tuple[models.Enforcement, ...]] = field(default_factory=dict)


class AssayEnvironment(ExecutionEnvironment):
    """Runs code on a fleet of Assay.

    Args:
        allowed_imports: top-level modules that code may import, as in mellea: code with another import statement is not
            run. This checks the text and is no security boundary; the policy is. None is any.
        policy: permissions of the code: all eleven fields are enforced. None is
            CapabilityPolicy(subprocess_execution=True).
        working_directory: of the code in the sandbox, an absolute path; default /workspace.
        client: the client to use; default as in assay.run.
        image: file system of the code, with a python3; default "python".
        limits: of the fleet's own, such as {"memory": "1Gi", "cpu": 2}: see FleetCapabilityPolicy.
        variables: environment variables of the code. It has none of this machine's.
        export_dir: directory for artifacts, each in a directory of its own, where they stay. None: a temporary
            directory, which is removed with the result.
        deadline: seconds for an execution, including the wait for a worker; None: no limit.

    Raises:
        TypeError, ValueError: a field of the policy is invalid, or two contradict each other.
    """

    policy: FleetCapabilityPolicy

    def __init__(
        self,
        allowed_imports: list[str] | None = None,
        policy: CapabilityPolicy | None = None,
        working_directory: str | None = None,
        *,
        client: Client | None = None,
        image: str | None = None,
        limits: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        export_dir: Path | None = None,
        deadline: float | None = None,
    ) -> None:
        given = policy if policy is not None else CapabilityPolicy(subprocess_execution=True)
        cwd = None if working_directory is None else str(working_directory)
        own = FleetCapabilityPolicy.of(given, limits=limits, variables=variables, cwd=cwd)
        super().__init__(allowed_imports=allowed_imports, policy=own, working_directory=own.directory)
        self._client = client or default_client()
        self._image, self._export_dir, self._deadline = image, export_dir, deadline
        self._files = Files(self._client)
        self._open = False

    def __enter__(self: E) -> E:
        self._open = True
        return self

    def __exit__(self, *_: object) -> None:
        self._open = False
        self._files.forget()

    def explain(self) -> dict[str, tuple[models.Enforcement, ...]]:
        """The enforcement of each field of the policy on this fleet, before anything runs."""
        answer = self._client.api.explain_policy(self.policy.to_fleet(), program="command")
        return by_field(answer.enforcement)

    def execute(self, code: str, timeout: int | None = None) -> AssayResult:
        """Runs code as a script, and returns its result.

        Args:
            code: Python.
            timeout: seconds, instead of the policy's.

        Returns:
            AssayResult: skipped, with a message and without a job, if an import is not allowed; skipped, with the
            job, if packages cannot be installed, or when the time is over.

        Raises:
            InfraError: there is no verdict on the code: this never becomes a result that looks like its failure.
            APIError, Unreachable: the fleet refuses the policy, or does not answer.
            Timeout: the deadline is over.
            ValueError: the files do not fit into limits["disk"], or filesystem_read_roots have too many.
        """
        if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"code: must be a text, not {type(code).__name__}")
        if unauthorized := _unauthorized(code, self.allowed_imports):
            return self._skipped(f"Unauthorized imports detected: {', '.join(unauthorized)}")
        try:
            done = self._client.run(self._job(code, self._seconds(timeout)), timeout=self._deadline)
        except InfraError as e:
            why = e.result.message
            if self.policy.packages and why.startswith("policy.packages"):
                return self._skipped(
                    f"Package installation failed: {why}", e.result if isinstance(e.result, Result) else None
                )
            if e.result.outcome == "setup_error" and why.startswith(FULL):
                raise ValueError(f"limits: disk: {why.removeprefix(FULL)}: nothing was run") from None
            raise
        if self._open:
            self._files.adopt(done, self.policy.places()[0], self._script)
            for line in done.feedback:
                logger.warning("files of the execution: %s", line)
        return self._result(done)

    def copy_in(self, host_path: Path, container_path: str) -> None:
        """Copies a local file into the sandbox, from the next execution on.

        Args:
            host_path: a file.
            container_path: its path in the sandbox; if it is relative, beneath the working directory.

        Raises:
            OSError: the file cannot be read.
            ValueError: code has no such directory: see filesystem_write_roots.
        """
        path = self._path(container_path)
        write, read = self.policy.places()
        if not covered(path, [*write, *read]) or path in (*write, *read):
            raise ValueError(f"container_path: {path} is in none of {', '.join([*write, *read])}")
        self._files.put(path, Path(host_path).read_bytes())

    def copy_out(self, container_path: str, host_path: Path) -> None:
        """Copies a file, as the last execution left it, to this machine.

        Raises:
            RuntimeError: the environment is not open: files persist only within a with statement.
            FileNotFoundError: there is no such file in the writable directories.
        """
        if not self._open:
            raise RuntimeError("AssayEnvironment must be used as a context manager to call copy_out")
        Path(host_path).write_bytes(self._files.get(self._path(container_path)))

    def tool(self, name: str = "python") -> MelleaTool[..., ExecutionResult]:
        """A tool for ModelOption.TOOLS that runs code here."""
        from mellea.backends.tools import MelleaTool

        def run_python(code: str) -> ExecutionResult:
            """Execute Python code and return the result with any output artifacts."""
            return self.execute(code)

        return MelleaTool.from_callable(run_python, name=name)

    @property
    def _script(self) -> str:
        return f"{self.policy.directory}/{SCRIPT}"

    def _seconds(self, timeout: int | None) -> float:
        if timeout is None:
            return self.policy.timeout
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:  # pyright: ignore
            raise ValueError(f"timeout: must be a positive number of seconds, not {timeout!r}")
        return timeout

    def _path(self, path: str) -> str:
        if ".." in PurePosixPath(path).parts:
            raise ValueError(f"container_path: {path!r} must be without ..")
        return str(PurePosixPath(self.policy.directory) / path)

    def _job(self, code: str, seconds: float) -> dict[str, Any]:
        script = self._script
        policy: dict[str, Any] = {**self.policy.to_fleet(), **self.policy.clocks(seconds)}
        if self._open:
            kept = [f"{w}/**" for w in policy["write"]]
            policy["artifacts"] = {**policy["artifacts"], "paths": kept}
        text = code.encode("utf-8", "surrogatepass")  # python itself reports code that it cannot read
        files, size = self._files.job(read_roots(self.policy), {script: text})
        if "disk" not in self.policy.limits:
            policy["disk"] = DISK + size
        job: dict[str, Any] = {
            "program": {"command": {"argv": self._argv(script), "dir": self.policy.directory}},
            "files": files,
            "policy": policy,
        }
        if self._image is not None:
            job["image"] = self._image
        return job

    def _argv(self, script: str) -> list[str]:
        options = ["-B", *([] if self.policy.package_installation else ["-s"]), script]
        return ["python3", *options] if self.policy.env_var_access else ["python3", "-I", "-S", "-c", UNSET, *options]

    def _skipped(self, why: str, job: Result | None = None) -> AssayResult:
        return AssayResult(
            success=False, stdout=None, stderr=None, skipped=True, skip_message=why, execution_mode=MODE,
            working_directory=self.working_directory, job=job, enforcement=_enforcement(job),
        )  # fmt: skip

    def _result(self, job: Result) -> AssayResult:
        late = job.outcome == "timed_out"
        result = AssayResult(
            success=job.ok,
            stdout=_cut(self._output(job, "stdout"), self.policy.stdout_max_bytes),
            stderr=_cut(_with_reason(self._output(job, "stderr"), job), self.policy.stderr_max_bytes),
            skipped=late,
            skip_message="Execution timed out." if late else None,
            exit_code=None if late else _exit_code(job),
            timed_out=late,
            execution_mode=MODE,
            working_directory=self.working_directory,
            job=job,
            enforcement=_enforcement(job),
        )
        if job.ok:
            result.artifacts = self._export(job, result)
        return result

    def _output(self, job: Result, stream: str) -> str:
        """All of a stream that the fleet kept: a long one is stored beside the result."""
        if "stored" in job.part(stream):
            return self._client.api.get_output(job.id, stream).body.decode("utf-8", "replace")
        return str(job.part(stream).get("text", ""))

    def _export(self, job: Result, result: AssayResult) -> list[Artifact]:
        """Copies the policy's exports to this machine, one artifact for each of its paths."""
        out: list[Artifact] = []
        made: list[Path] = []
        for path in self.policy.exports():
            files = {a.path: a for a in job.record.artifacts or [] if covered(a.path, [path])}
            files.pop(self._script, None)
            if not files:
                logger.warning("nothing to export at %s: %s", path, "; ".join(job.feedback) or "there is no such file")
                continue
            if self._export_dir is not None:
                self._export_dir.mkdir(parents=True, exist_ok=True)
            place = Path(tempfile.mkdtemp(dir=self._export_dir))
            made.append(place)
            target = place / PurePosixPath(path).name
            for name, artifact in files.items():
                to = target / PurePosixPath(name).relative_to(path)
                to.parent.mkdir(parents=True, exist_ok=True)
                to.write_bytes(self._client.api.get_artifact(job.id, artifact.path).body)
            single = files.get(path)
            out.append(Artifact(target, single.bytes, single.media_type) if single else Artifact(target))
        if made and self._export_dir is None:
            weakref.finalize(result, _remove, made)
        return out


def _remove(directories: list[Path]) -> None:
    for directory in directories:
        shutil.rmtree(directory, ignore_errors=True)


def _enforcement(job: Result | None) -> dict[str, tuple[models.Enforcement, ...]]:
    return {} if job is None else by_field(job.record.enforcement or [])


def _exit_code(job: Result) -> int | None:
    """As in subprocess: negative for a signal, and for a program that exceeded a limit and was killed."""
    return job.exit_code if job.exit_code is not None else -9


def _with_reason(text: str, job: Result) -> str:
    """stderr, which mellea shows a model after a failure, with the fleet's message, if there is one."""
    known = job.outcome in ("succeeded", "failed") or not job.message
    return text if known else f"{text.rstrip()}\n{job.outcome}: {job.message}"


def _cut(text: str, most: int | None) -> str:
    """The text without surrounding spaces, truncated to that many bytes, as in mellea's own environments."""
    data = text.strip().encode("utf-8", "surrogatepass")
    if most is None or len(data) <= most:
        return text.strip()
    keep = most - len(MARKER)
    if keep <= 0:
        return data[:most].decode("utf-8", "ignore")
    return data[:keep].decode("utf-8", "ignore") + MARKER


def _unauthorized(code: str, allowed: list[str] | None) -> list[str]:
    """Top-level modules that code imports and may not, by mellea's rule; none in code that is not Python."""
    if not allowed:
        return []
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return []
    named: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            named += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            named.append(node.module)
    return [m for m in dict.fromkeys(name.split(".")[0] for name in named) if m not in allowed]
