"""Builds the programs of a fleet with Go, and puts them into the wheel.

ASSAY_WHEEL_ARCH selects the processors: x86_64 or aarch64; by default those of this machine. The programs are
static: one wheel is for every Linux, with glibc or with musl. ASSAY_REVISION is the commit that the programs report.
The build needs go in PATH, and a clone of the repository.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).resolve().parents[2]  # of the repository
PROGRAMS = ("assay", "dispatcher", "guest", "worker")
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Go's names
MODULE = "github.com/assay-run/assay"
LINE = "=" * 100
LICENCES = ("license", "licence", "copying", "notice", "patents")


class Client(MetadataHookInterface):
    """Depends on the client of the same version."""

    def update(self, metadata: dict[str, Any]) -> None:
        metadata["dependencies"] = [f"assay-exec=={metadata['version']}"]


class Programs(BuildHookInterface[Any]):
    """Adds the programs to the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel" or version == "editable":
            raise SystemExit("assay-exec-fleet is built as a wheel only: pip install ./sdk/fleet, or scripts/wheels")
        if not (ROOT / "go.mod").exists():
            raise SystemExit("assay-exec-fleet is built in a clone of the repository of Assay, from its Go sources")
        machine = os.environ.get("ASSAY_WHEEL_ARCH") or platform.machine()
        if machine not in ARCHITECTURES:
            raise SystemExit(f"ASSAY_WHEEL_ARCH: {machine!r} is none of {', '.join(ARCHITECTURES)}")
        self.place = Path(tempfile.mkdtemp(prefix="assay-wheel-"))
        try:
            env = go_environment(ARCHITECTURES[machine])
            build(self.place, self.metadata.version, env)
            (self.place / "THIRD-PARTY-NOTICES.txt").write_text(notices(env), encoding="utf-8")
        except BaseException:
            shutil.rmtree(self.place)
            raise
        build_data["tag"] = f"py3-none-manylinux2014_{machine}.musllinux_1_1_{machine}"
        build_data["pure_python"] = False
        build_data["force_include"] = {
            **{str(self.place / name): f"assay_fleet/bin/{name}" for name in PROGRAMS},
            str(self.place / "THIRD-PARTY-NOTICES.txt"): "assay_fleet/THIRD-PARTY-NOTICES.txt",
            str(ROOT / "LICENSE"): "assay_fleet/LICENSE",
        }

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        shutil.rmtree(self.place)


def go_environment(architecture: str) -> dict[str, str]:
    """The environment of go, without variables of this machine that would change the build."""
    told = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith("GOEXPERIMENT") and k not in ("GOFLAGS", "GOAMD64", "GOARM64")
    }
    return {**told, "GOOS": "linux", "GOARCH": architecture, "CGO_ENABLED": "0"}


def build(to: Path, version: str, env: dict[str, str]) -> None:
    """Builds every program, with the same bytes in any directory."""
    stamps = {"release": f"v{version}", "revision": os.environ.get("ASSAY_REVISION", "")}
    stamped = " ".join(f"-X {MODULE}/internal/version.{name}={value}" for name, value in stamps.items() if value)
    flags = ["-trimpath", "-buildvcs=false", f"-ldflags=-s -w {stamped}"]
    go(["build", *flags, "-o", f"{to}/", *(f"./cmd/{name}" for name in PROGRAMS)], env)


def notices(env: dict[str, str]) -> str:
    """Licences and notices of all modules in the programs. A module without any is an error."""
    form = "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}"
    listed = go(["list", "-deps", "-f", form, *(f"./cmd/{name}" for name in PROGRAMS)], env)
    parts = [("Go " + go(["env", "GOVERSION"], env).strip(), Path(go(["env", "GOROOT"], env).strip()))]
    for line in sorted(set(listed.split("\n")) - {""}):
        path, version, place = line.split("\t")
        parts.append((f"{path} {version}", Path(place)))
    out = ["What the programs of this package consist of besides Assay's own code, and under which terms.\n"]
    for name, place in parts:
        found = sorted(p for p in place.iterdir() if p.is_file() and p.name.lower().startswith(LICENCES))
        if not found:
            raise SystemExit(f"{name}: there is no licence in {place}")
        for file in found:
            text = file.read_text(encoding="utf-8", errors="replace")
            out.append(f"\n{LINE}\n{name}: {file.name}\n{LINE}\n\n{text}")
    return "".join(out)


def go(arguments: list[str], env: dict[str, str]) -> str:
    """The output of a go command."""
    if not shutil.which("go"):
        raise SystemExit("assay-exec-fleet is built with Go, which is not in PATH")
    return subprocess.run(["go", *arguments], cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
