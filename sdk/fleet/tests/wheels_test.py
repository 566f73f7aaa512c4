"""The wheels, as built by `make wheels`: their content, and a whole fleet from them alone."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
DIST = ROOT / "sdk" / "dist"
MACHINES = {"x86_64": 62, "aarch64": 183}  # as ELF numbers them
PROGRAMS = ("assay", "dispatcher", "guest", "worker")


def wheel(pattern: str) -> Path:
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern} in {DIST}: {found}; run make wheels"
    return found[0]


def interpreter(elf: bytes) -> bool:
    """Whether a 64-bit ELF file asks for a dynamic linker."""
    offset, size, count = struct.unpack_from("<Q", elf, 32)[0], *struct.unpack_from("<HH", elf, 54)
    return any(struct.unpack_from("<I", elf, offset + i * size)[0] == 3 for i in range(count))


@pytest.mark.parametrize("machine", MACHINES)
def test_programs(machine: str) -> None:
    """Static programs of the architecture in the name, with their licences."""
    file = wheel(f"assay_exec_fleet-*_{machine}.whl")
    assert f"-py3-none-manylinux2014_{machine}.musllinux_1_1_{machine}" in file.name
    assert file.stat().st_size < 100e6  # the package index's limit
    with zipfile.ZipFile(file) as z:
        for name in PROGRAMS:
            elf = z.read(f"assay_fleet/bin/{name}")
            assert elf[:4] == b"\x7fELF"
            assert struct.unpack_from("<H", elf, 18)[0] == MACHINES[machine]
            assert not interpreter(elf)
            assert str(ROOT).encode() not in elf
            assert z.getinfo(f"assay_fleet/bin/{name}").external_attr >> 16 & 0o777 == 0o755
        metadata = z.read(next(n for n in z.namelist() if n.endswith(".dist-info/METADATA"))).decode()
        version = re.search(r"^Version: (.+)$", metadata, re.M)
        assert version
        assert f"Requires-Dist: assay-exec=={version[1]}" in metadata
        tags = z.read(next(n for n in z.namelist() if n.endswith(".dist-info/WHEEL"))).decode()
        assert f"Tag: py3-none-manylinux2014_{machine}\n" in tags
        assert f"Tag: py3-none-musllinux_1_1_{machine}\n" in tags
        assert "Root-Is-Purelib: false" in tags
        assert "Apache License" in z.read("assay_fleet/LICENSE").decode()
        notices = z.read("assay_fleet/THIRD-PARTY-NOTICES.txt").decode()
        for module in ("Go go1.", "github.com/nats-io/nats-server/v2 v", "github.com/containerd/containerd/v2 v"):
            assert f"\n{module}" in notices


def test_client_is_for_any_platform() -> None:
    assert wheel("assay_exec-*.whl").name.endswith("-py3-none-any.whl")


def test_same_sources_same_wheel(tmp_path: Path) -> None:
    """A build elsewhere, with other settings of Go, has the same bytes."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout.decode().split("\0")[:-1]
    for name in names:
        if (ROOT / name).exists():
            (tmp_path / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tmp_path / "clone" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path / "dist")]
    env = {**os.environ, "ASSAY_WHEEL_ARCH": "aarch64", "GOFLAGS": "-tags=faults", "GOARM64": "v9.0"}
    subprocess.run([*command, "./sdk/fleet"], cwd=tmp_path / "clone", check=True, env=env)
    again = list((tmp_path / "dist").iterdir())
    first = wheel("assay_exec_fleet-*_aarch64.whl")
    assert [p.name for p in again] == [first.name]
    assert hashlib.sha256(again[0].read_bytes()).digest() == hashlib.sha256(first.read_bytes()).digest()


class Machine:
    """A machine with the wheels in an environment of their own, and nothing of this repository."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.bin = home / "venv" / "bin"
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("ASSAY_", "XDG_"))} | {"HOME": str(home)}
        self.env["PATH"] = f"{self.bin}:{self.env['PATH']}"

    def start(self, **env: str) -> tuple[subprocess.Popen[str], str]:
        """A fleet with its default image, and where it is."""
        command = [str(self.bin / "assay"), "dev", "--listen", "127.0.0.1:0"]
        with (self.home / "log").open("w") as log:
            p = subprocess.Popen(
                command, cwd=self.home, env=self.env | env, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert p.stdout
        line = p.stdout.readline()  # it ends by itself if it cannot start
        ready = re.search(r"ready on (\S+)", line)
        assert ready, f"{line}{(self.home / 'log').read_text()}"
        return p, ready[1]

    def program(self) -> str:
        """The program itself: the user nobody cannot enter the interpreter's home."""
        return self.python("import assay_fleet; print(assay_fleet.program())").strip()

    def python(self, code: str, **env: str) -> str:
        command = [str(self.bin / "python"), "-c", code]
        done = subprocess.run(
            command, cwd=self.home, env=self.env | env, stdout=subprocess.PIPE, text=True, timeout=120, check=True
        )
        return done.stdout


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    home = Path(tempfile.mkdtemp(prefix="assay-wheels-"))
    home.chmod(0o755)  # for nobody
    try:
        subprocess.run([sys.executable, "-m", "venv", str(home / "venv")], check=True)
        wheels = [wheel("assay_exec-*.whl"), wheel(f"assay_exec_fleet-*_{os.uname().machine}.whl")]
        pip = [str(home / "venv" / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *map(str, wheels)], cwd=home, check=True)
        yield Machine(home)
    finally:
        shutil.rmtree(home)


def stop(p: subprocess.Popen[str]) -> int:
    p.send_signal(signal.SIGTERM)
    return p.wait(90)


def test_fleet(machine: Machine) -> None:
    """`pip install`, `assay dev`, a program; the second time the image is there."""
    said = subprocess.run(["assay", "version"], env=machine.env, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert said.startswith("assay v0.")
    program = "import assay; print(assay.run('print(6 * 7)', policy={'wall': '10s'}).check().stdout)"
    p, url = machine.start()
    try:
        assert machine.python(program, ASSAY_URL=url) == "42\n\n"
    finally:
        assert stop(p) == 0
    assert "building the default image" in (machine.home / "log").read_text()
    images = list((machine.home / ".cache" / "assay").glob("*.tar"))
    assert len(images) == 1
    assert not list((machine.home / ".cache" / "assay").glob("build-*"))

    refused = "\ntry: assay.run('1', token='')\nexcept assay.AuthError: print('refused')"
    p, url = machine.start(ASSAY_TOKENS="mine=me")
    try:
        assert machine.python(program, ASSAY_URL=url, ASSAY_TOKEN="mine") == "42\n\n"
        assert machine.python("import assay" + refused.replace(", token=''", ""), ASSAY_URL=url) == "refused\n"
    finally:
        assert stop(p) == 0
    assert "building" not in (machine.home / "log").read_text()
    assert list((machine.home / ".cache" / "assay").glob("*.tar")) == images


def test_exit_code_is_the_programs(machine: Machine) -> None:
    command = ["assay", "run", "--url", "http://127.0.0.1:1", "--patience", "0s", "x.py"]
    assert subprocess.run(command, env=machine.env, stderr=subprocess.DEVNULL).returncode == 125
    assert machine.python("import assay_fleet; print(assay_fleet.program('guest').name)") == "guest\n"


# Hidden paths: files are hidden by /dev/null, folders by an empty one.
LACKS = {
    "containerd": (["/usr/bin/containerd"], "containerd: containerd is neither in PATH", "containerd"),
    "shim": (["/usr/bin/containerd-shim-runc-v2"], "containerd: containerd-shim-runc-v2 is", "containerd"),
    "runc": (["/usr/sbin/runc", "/usr/bin/runc"], "runc: runc is neither in PATH", "runc"),
    "Postgres": (["/usr/lib/postgresql/"], "Postgres: postgres is neither in PATH", "postgresql"),
    "mmdebstrap": (["/usr/bin/mmdebstrap"], "image: there is no archive of the default image", "mmdebstrap"),
}


def without(machine: Machine, hidden: list[str], user: str = "root") -> str:
    """The output of `assay dev` on the machine without some of its files, after at most ten seconds."""
    empty = machine.home / "empty"
    empty.mkdir(exist_ok=True)
    mounts = [f"[ ! -e {h} ] || mount --bind {empty if h.endswith('/') else '/dev/null'} {h}" for h in hidden]
    script = "set -e; " + "; ".join([*mounts, f'exec setpriv --reuid={user} "$0" "$@"'])
    # PATH has no copies of hidden programs.
    env = machine.env | {"PATH": f"{machine.bin}:/usr/bin:/usr/sbin:/bin:/sbin"}
    command = ["unshare", "--mount", "bash", "-c", script, machine.program(), "dev", "--listen", "127.0.0.1:0"]
    data = machine.home / ".local" / "share" / "assay" / "postgres"
    before = data.exists()
    p = subprocess.run(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=10)
    assert p.returncode == 125, p.stdout
    assert data.exists() == before  # nothing was started
    return p.stdout


@pytest.fixture
def no_image(machine: Machine) -> Iterator[None]:
    """The machine as if its default image had not been built yet."""
    cache, aside = machine.home / ".cache", machine.home / "cache-of-before"
    if cache.exists():
        cache.rename(aside)
    yield
    shutil.rmtree(cache, ignore_errors=True)
    if aside.exists():
        aside.rename(cache)


@pytest.mark.usefixtures("no_image")
@pytest.mark.parametrize("lack", LACKS)
def test_what_lacks(machine: Machine, lack: str) -> None:
    """Each is named with the command that installs it, before anything is started."""
    hidden, says, package = LACKS[lack]
    said = without(machine, hidden)
    assert says in said
    assert said.endswith(f"\nrun: apt-get install --no-install-recommends {package}\n")


@pytest.mark.usefixtures("no_image")
def test_all_that_lacks_is_said_at_once(machine: Machine) -> None:
    said = without(machine, [h for hidden, _, _ in LACKS.values() for h in hidden], user="nobody")
    for _, says, _ in LACKS.values():
        assert says in said
    assert re.search(r"root: .*; run: sudo \S+/assay dev", said)
    assert "\nrun: sudo apt-get install --no-install-recommends postgresql containerd runc mmdebstrap\n" in said
