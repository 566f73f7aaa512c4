"""mellea: its CapabilityPolicy as a policy of a fleet, on which all eleven fields are enforced.

    policy = FleetCapabilityPolicy.of(CapabilityPolicy(network_access=False, timeout=10))
    policy.unenforced_capabilities()  # []
    policy.to_fleet()                 # {"wall": "10s", "network": {"mode": "none"}, …}

For each field, docs/integrations/interpreters.md has its translation, its mechanism, and the test that attacks it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, cast

from mellea.stdlib.tools.execution_policy import CapabilityPolicy

from .. import models

WORKSPACE = "/workspace"
"""Default working directory of programs."""

WRITABLE = (WORKSPACE, "/tmp")
"""Writable directories if filesystem_write_roots is None."""

DISK = 64 << 20
"""Bytes that programs may write by default, besides the sent files."""

MOST_OUTPUT = 16 << 20
"""Most bytes of a stream that a fleet keeps."""

ROWS: dict[str, tuple[str, ...]] = {
    "filesystem_read_roots": ("read",),
    "filesystem_write_roots": ("write",),
    "network_access": ("network",),
    "package_installation": ("packages", "write", "env.set"),
    "subprocess_execution": ("subprocesses",),
    "env_var_access": ("env.set", "env.secrets"),
    "timeout": ("wall", "cpu_time"),
    "stdout_max_bytes": ("stdout",),
    "stderr_max_bytes": ("stderr",),
    "artifact_export_paths": ("artifacts",),
    "packages": ("packages",),
}
"""The capabilities in the fleet's enforcement report for each field."""

NO_INSTALLS = {"PIP_NO_INDEX": "1", "PIP_USER": "0", "PYTHONNOUSERSITE": "1", "UV_OFFLINE": "1"}
"""Variables with package_installation=False: installers have no index, and no place outside of the image."""

INSTALLS = {"PIP_USER": "1", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
"""With True: pip installs beside the image's packages, which are read-only."""

LIMITS = frozenset(("isolation", "cpu", "memory", "processes", "disk", "files", "open_files", "syscalls"))
"""Fields of a fleet's policy that mellea's policy does not have."""


@dataclass
class FleetCapabilityPolicy(CapabilityPolicy):
    """mellea's policy as enforced by a fleet: the same fields, and no warning about paths.

    Attributes:
        limits: fields of the fleet's policy that mellea's does not have, such as {"memory": "1Gi", "cpu": 2}.
        variables: environment variables of programs. With env_var_access=False there are none.
        cwd: working directory of programs; default the first of filesystem_write_roots, or /workspace.

    Raises:
        TypeError, ValueError: a field is invalid, or two fields contradict each other; the text begins with its name.
    """

    limits: Mapping[str, Any] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None

    ENFORCED_filesystem_read_roots: ClassVar[bool] = True
    ENFORCED_filesystem_write_roots: ClassVar[bool] = True
    ENFORCED_network_access: ClassVar[bool] = True
    ENFORCED_package_installation: ClassVar[bool] = True
    ENFORCED_subprocess_execution: ClassVar[bool] = True
    ENFORCED_env_var_access: ClassVar[bool] = True

    def __post_init__(self) -> None:
        _judge(self)
        self.places()

    @classmethod
    def of(
        cls,
        policy: CapabilityPolicy,
        *,
        limits: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        cwd: str | None = None,
    ) -> FleetCapabilityPolicy:
        """Imports a policy of mellea. A policy that was imported before keeps its own values, unless they are given."""
        own: dict[str, Any] = {"limits": limits, "variables": variables, "cwd": cwd}
        if isinstance(policy, FleetCapabilityPolicy):
            own = {name: getattr(policy, name) if value is None else value for name, value in own.items()}
        values = {f.name: getattr(policy, f.name) for f in fields(CapabilityPolicy)}
        return cls(**values, **{name: value for name, value in own.items() if value is not None})

    @property
    def directory(self) -> str:
        """Working directory of programs."""
        if self.cwd is not None:
            return self.cwd
        return _paths(self.filesystem_write_roots)[0] if self.filesystem_write_roots else WORKSPACE

    def places(self) -> tuple[list[str], list[str]]:
        """Writable and read-only directories in the sandbox, besides the image."""
        unlimited = self.filesystem_write_roots is None
        write = _topmost(WRITABLE if unlimited else _paths(self.filesystem_write_roots))
        read = [_directory_of(root) for root in self.filesystem_read_roots or ()]
        if not covered(self.directory, [*write, *read]):
            # Programs need a working directory: a writable one if there is no restriction, else an empty read-only
            # one.
            (write if unlimited else read).append(self.directory)
        write = _topmost(write)
        read = _topmost([r for r in read if not covered(r, write)])
        for w in write:
            if covered(w, read):
                raise ValueError(
                    f"filesystem_write_roots: {w} lies beneath {covered(w, read)}, which is for reading only (by "
                    "filesystem_read_roots, or as cwd): a sandbox cannot have one in the other, so take them beside it"
                )
        return write, read

    def to_fleet(self) -> dict[str, Any]:
        """The fleet's policy, for a program that is a command."""
        write, read = self.places()
        size, files = self.limits.get("disk", DISK), self.limits.get("files", 4096)
        exported = [str(p) for p in self.exports()]
        return {
            "disk": size,
            "files": files,
            **self.limits,
            "read": read,
            "write": write,
            "network": {"mode": "open" if self.network_access else "none"},
            "packages": list(self.packages),
            "subprocesses": self.subprocess_execution,
            "env": {"set": self.environment()},
            **self.clocks(self.timeout),
            "stdout": _stream(self.stdout_max_bytes),
            "stderr": _stream(self.stderr_max_bytes),
            "artifacts": {"paths": _globs(exported), "max_bytes": size, "max_files": files},
        }

    def environment(self) -> dict[str, str]:
        """All variables of programs, except the image's."""
        if not self.env_var_access:
            return {}
        return {**(INSTALLS if self.package_installation else NO_INSTALLS), **self.variables}

    def clocks(self, seconds: float) -> dict[str, str]:
        """Limits of time. A program that computes on all its cores may run as long as a sleeping one."""
        cores = max(float(self.limits.get("cpu", 1)), 1.0)
        return {"wall": f"{seconds}s", "cpu_time": f"{seconds * cores:.3f}s"}

    def exports(self) -> list[str]:
        """artifact_export_paths as absolute paths in the sandbox: relative ones are beneath the working directory."""
        return [posixpath.normpath(posixpath.join(self.directory, str(p))) for p in self.artifact_export_paths]


def by_field(enforcement: Iterable[models.Enforcement]) -> dict[str, tuple[models.Enforcement, ...]]:
    """A fleet's enforcement report by mellea's fields: requested and applied value, mechanism and level."""
    rows = {e.capability: e for e in enforcement}
    return {name: tuple(rows[c] for c in capabilities if c in rows) for name, capabilities in ROWS.items()}


def covered(path: str, places: Iterable[str]) -> str | None:
    """The place that a path is, or lies beneath."""
    return next((p for p in places if path == p or path.startswith(p.rstrip("/") + "/")), None)


def _judge(policy: FleetCapabilityPolicy) -> None:
    given = vars(policy)
    for name in ("network_access", "package_installation", "subprocess_execution", "env_var_access"):
        if not isinstance(given[name], bool):
            raise TypeError(f"{name}: must be True or False, not {given[name]!r}")
    _number("timeout", given["timeout"], 1)
    for name in ("stdout_max_bytes", "stderr_max_bytes"):
        if given[name] is not None:
            _number(name, given[name], 0)
    for name in ("filesystem_read_roots", "filesystem_write_roots"):
        if given[name] is not None:
            _list(name, given[name], (str, Path))
    _list("artifact_export_paths", given["artifact_export_paths"], (str, Path))
    _list("packages", given["packages"], (str,))
    if policy.packages and not policy.package_installation:
        raise ValueError("packages: are installed only with package_installation=True")
    if policy.variables and not policy.env_var_access:
        raise ValueError("variables: programs have none with env_var_access=False")
    if unknown := set(policy.limits) - LIMITS:
        raise ValueError(f"limits: {', '.join(sorted(unknown))}: may have {', '.join(sorted(LIMITS))}")
    if not policy.directory.startswith("/") or posixpath.normpath(policy.directory) != policy.directory:
        raise ValueError(f"cwd: {policy.directory!r} must be a plain absolute path in the sandbox, such as /workspace")
    for path in policy.exports():
        if not covered(path, policy.places()[0]):
            raise ValueError(
                f"artifact_export_paths: {path} is nowhere where programs may write; see filesystem_write_roots"
            )


def _number(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name}: must be a whole number, not {value!r}")
    if value < least:
        raise ValueError(f"{name}: must be {least} or more, not {value}")


def _list(name: str, value: Any, types: tuple[type, ...]) -> None:
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence):
        raise TypeError(f"{name}: must be a list, not {value!r}")
    for entry in cast("Sequence[Any]", value):
        if not isinstance(entry, types):
            raise TypeError(f"{name}: must be a list of {' or '.join(t.__name__ for t in types)}, not of {entry!r}")


def _paths(roots: Iterable[Path] | None) -> list[str]:
    return [str(Path(root).absolute()) for root in roots or ()]


def _directory_of(root: Path) -> str:
    """The directory of a root in the sandbox: directories are mounted, so a file's parent directory."""
    root = Path(root).absolute()
    if not root.exists():
        raise ValueError(f"filesystem_read_roots: {root} does not exist: files to read are sent from this machine")
    return str(root if root.is_dir() else root.parent)


def _topmost(paths: Iterable[str]) -> list[str]:
    """The topmost of the paths, each once."""
    unique = list(dict.fromkeys(paths))
    return [p for p in unique if not covered(p, [other for other in unique if other != p])]


def _stream(most: int | None) -> dict[str, Any]:
    """A limit of the fleet, with room for the final newline, which mellea does not count."""
    return {"limit": MOST_OUTPUT if most is None else min(most + 1, MOST_OUTPUT), "on_exceed": "truncate"}


def _globs(paths: Iterable[str]) -> list[str]:
    """Patterns for the files at these paths, and beneath directories among them."""
    literal = [p.replace("\\", "\\\\").replace("*", "\\*").replace("?", "\\?").replace("[", "\\[") for p in paths]
    return [g for p in literal for g in (p, f"{p}/**")]
