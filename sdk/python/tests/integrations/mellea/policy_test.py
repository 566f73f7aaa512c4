"""The capability policy: for each of its fields, a program that tries to break it, and the report."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path
from typing import Any

import pytest
from mellea.stdlib.tools.execution_policy import DOCKER_POLICY, LOCAL_POLICY, CapabilityPolicy

import assay
from assay.integrations.mellea import AssayResult, FleetCapabilityPolicy
from conftest import WHEEL, Make, wheel

FIELDS = [f.name for f in dataclasses.fields(CapabilityPolicy)]

TRY = """
def attempt(what, f):
    try:
        print(what, "done", f())
    except BaseException as e:
        print(what, "stopped", type(e).__name__)
"""

pytestmark = pytest.mark.filterwarnings("ignore:CapabilityPolicy was constructed")


def reported(result: AssayResult, field: str) -> list[tuple[str, str, str]]:
    """Capability, applied value and level of a field."""
    rows = result.enforcement[field]
    assert all(r.requested == r.applied and r.mechanism for r in rows), rows
    return [(r.capability, r.applied, r.level) for r in rows]


def test_eleven_fields() -> None:
    assert len(FIELDS) == 11
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy = FleetCapabilityPolicy.of(LOCAL_POLICY, limits={"memory": "128Mi"})
    assert policy.unenforced_capabilities() == []
    assert sorted(policy.enforced_capabilities()) == sorted(FIELDS)
    assert all(getattr(FleetCapabilityPolicy, f"ENFORCED_{f}") is True for f in FIELDS)
    assert all(getattr(policy, f) == getattr(LOCAL_POLICY, f) for f in FIELDS)
    assert FleetCapabilityPolicy.of(policy) == policy


def test_filesystem_read_roots(make: Make, tmp_path: Path) -> None:
    data, secret = tmp_path / "data", tmp_path / "secret.txt"
    (data / "deep").mkdir(parents=True)
    (data / "deep" / "in.txt").write_text("what may be read")
    secret.write_text("what may not")
    (data / "link.txt").symlink_to(secret)
    env = make(filesystem_read_roots=[data], filesystem_write_roots=[Path("/workspace")])
    r = env.execute(f"""{TRY}
attempt("root", lambda: open({str(data / "deep" / "in.txt")!r}).read())
attempt("link", lambda: open({str(data / "link.txt")!r}).read())
attempt("beside", lambda: open({str(secret)!r}).read())
attempt("host", lambda: open({str(Path(__file__))!r}).read())
attempt("change", lambda: open({str(data / "deep" / "in.txt")!r}, "w"))
""")
    assert r.stdout == (
        "root done what may be read\nlink stopped FileNotFoundError\nbeside stopped FileNotFoundError\n"
        "host stopped FileNotFoundError\nchange stopped OSError"
    )
    assert reported(r, "filesystem_read_roots") == [("read", str(data), "kernel")]


def test_filesystem_write_roots(make: Make) -> None:
    env = make(filesystem_write_roots=[Path("/out")])
    places = ["/out/deep/x", "/tmp/x", "/workspace/x", "/etc/x", "/usr/x", "/home/x", "/var/tmp/x"]
    r = env.execute(f"""{TRY}
import os
os.makedirs("/out/deep")
for p in {places}:
    attempt(p, lambda: open(p, "w").write("x"))
attempt("remount", lambda: __import__("ctypes").CDLL(None, use_errno=True).mount(b"none", b"/etc", b"tmpfs", 0, None))
attempt("/etc/x", lambda: open("/etc/x", "w"))
""")
    lines = (r.stdout or "").splitlines()
    assert lines[0] == "/out/deep/x done 1"
    assert all(" stopped " in line for line in lines[1:7]), lines
    assert lines[7:] == ["remount done -1", "/etc/x stopped OSError"]
    assert reported(r, "filesystem_write_roots") == [("write", "/out", "kernel")]
    nowhere = make(filesystem_write_roots=[]).execute("open('/workspace/x', 'w')")
    assert "Read-only file system" in (nowhere.stderr or "")
    assert reported(nowhere, "filesystem_write_roots") == [("write", "none", "kernel")]


def test_network_access(make: Make) -> None:
    code = f"""{TRY}
import os, socket, urllib.request
attempt("address", lambda: socket.create_connection(("1.1.1.1", 443), 3))
attempt("name", lambda: socket.getaddrinfo("example.org", 443))
attempt("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("1.1.1.1", 53)))
attempt("link", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("metadata", lambda: urllib.request.urlopen("http://169.254.169.254/", timeout=3))
print("HTTP_PROXY" in os.environ)
"""
    r = make(network_access=False).execute(code)
    lines = (r.stdout or "").splitlines()
    assert len(lines) == 6, r
    assert all(" stopped " in line for line in lines[:5]), lines
    assert lines[5] == "False"
    assert reported(r, "network_access") == [("network", "none", "kernel")]

    opened = make(network_access=True).execute(code)
    lines = (opened.stdout or "").splitlines()
    assert lines[5] == "True", "it has a way to public addresses, and to no others"
    assert lines[4] == "metadata stopped HTTPError"
    assert reported(opened, "network_access") == [("network", "open; 1Gi", "runtime")]
    assert opened.job is not None
    network = opened.job.record.network
    assert network is not None
    assert [(a.host, a.decision) for a in network.attempts] == [("169.254.169.254", "refused")]


INSTALL = f"""
import subprocess, sys
wheel = "/workspace/{WHEEL}"
def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", "install", *words], capture_output=True, text=True)
    print(words[0], done.returncode, done.stderr.strip()[-300:] if done.returncode else "")
pip(wheel, "--no-deps")
pip("--break-system-packages", "--no-deps", wheel)
pip("friendly")
print(subprocess.run([sys.executable, "-c", "import friendly; print(friendly.word)"], capture_output=True).stdout)
"""


def test_package_installation(make: Make, tmp_path: Path) -> None:
    file = tmp_path / WHEEL
    file.write_bytes(wheel())
    closed = make(package_installation=False, subprocess_execution=True, network_access=True, timeout=60)
    closed.copy_in(file, WHEEL)
    r = closed.execute(INSTALL)
    lines = (r.stdout or "").splitlines()
    assert lines[-1] == "b''", r.stdout
    assert not [line for line in lines if line.startswith(("/", "--break", "friendly")) and line.split()[1] == "0"]
    assert "Read-only file system" in (r.stdout or "")
    assert ("write", "/workspace, /tmp", "kernel") in reported(r, "package_installation")
    assert ("env.set", "PIP_NO_INDEX, PIP_USER, PYTHONNOUSERSITE, UV_OFFLINE", "runtime") in reported(
        r, "package_installation"
    )

    opened = make(package_installation=True, subprocess_execution=True, timeout=60)
    opened.copy_in(file, WHEEL)
    assert (opened.execute(INSTALL).stdout or "").endswith("b'hello\\n'")

    with pytest.raises(ValueError, match=r"^packages: .*package_installation=True"):
        make(packages=["friendly"])


def test_subprocess_execution(make: Make) -> None:
    code = f"""{TRY}
import ctypes, os, multiprocessing, subprocess, threading
attempt("subprocess", lambda: subprocess.run(["true"]))
attempt("shell", lambda: subprocess.check_output("true", shell=True))
attempt("fork", os.fork)
attempt("spawn", lambda: os.posix_spawn("/bin/true", ["true"], {{}}))
attempt("multiprocessing", multiprocessing.get_context("fork").Process(target=print).start)
print("vfork", ctypes.CDLL(None).vfork())
t = threading.Thread(target=print, args=("threads run",)); t.start(); t.join()
"""
    r = make(subprocess_execution=False).execute(code)
    lines = (r.stdout or "").splitlines()
    assert all(" stopped " in line for line in lines[:5]), r.stdout
    assert lines[5:] == ["vfork -1", "threads run"]
    assert reported(r, "subprocess_execution") == [("subprocesses", "forbidden", "kernel")]
    allowed = make(subprocess_execution=True).execute(
        "import subprocess; print(subprocess.check_output('echo hi', shell=True))"
    )
    assert allowed.stdout == "b'hi\\n'"
    assert reported(allowed, "subprocess_execution") == [("subprocesses", "allowed", "none")]


def test_env_var_access(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_TEST_SECRET", "of this machine")
    code = f"""{TRY}
import ctypes, os
print(sorted(set(os.environ) - {{"LC_CTYPE"}}), os.getenv("TOKEN"), os.getenv("ASSAY_TEST_SECRET"))
print(repr(open("/proc/self/environ").read()))
attempt("others", lambda: open("/proc/1/environ").read())
getenv = ctypes.CDLL(None).getenv
getenv.restype = ctypes.c_char_p
print(getenv(b"TOKEN"), getenv(b"PATH"))
"""
    r = make(env_var_access=False).execute(code)
    assert (r.stdout or "").splitlines() == ["[] None None", "''", "others stopped PermissionError", "None None"]
    assert reported(r, "env_var_access")[0] == ("env.set", "none", "runtime")

    seen = make(env_var_access=True, variables={"TOKEN": "given"}).execute(code)
    assert " given None" in (seen.stdout or ""), "the given variables, and none of this machine"
    applied = reported(seen, "env_var_access")[0]
    assert applied[0] == "env.set"
    assert "TOKEN" in applied[1]
    with pytest.raises(ValueError, match=r"^variables: .*env_var_access=False"):
        make(env_var_access=False, variables={"TOKEN": "given"})


def test_timeout(make: Make) -> None:
    env = make(timeout=1)
    for code in (
        "import time; print('begun', flush=True); time.sleep(20)",
        "print('begun', flush=True)\nwhile True: pass",
        "import signal, time; print('begun', flush=True)\nfor s in range(1, 32):\n"
        "  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\n"
        "while True:\n  try: time.sleep(9)\n  except BaseException: pass",
    ):
        r = env.execute(code)
        assert (r.success, r.timed_out, r.exit_code, r.stdout) == (False, True, None, "begun")
        assert (r.skipped, r.to_validationresult_reason()) == (True, "Execution timed out.")
        assert r.job is not None
        usage = r.job.record.usage
        assert usage.wall_ms - (usage.waited_ms or 0) < 2000
        assert reported(r, "timeout") == [("wall", "1s", "runtime"), ("cpu_time", "1s", "runtime")]
    assert env.execute("import time; time.sleep(2); print('late')", timeout=10).stdout == "late"


def test_stdout_max_bytes(make: Make) -> None:
    r = make(stdout_max_bytes=100).execute("import os\nfor _ in range(200): os.write(1, b'o' * 100_000)\nprint('end')")
    assert r.success
    assert len((r.stdout or "").encode()) <= 100
    assert (r.stdout or "").endswith("... [truncated]")
    assert reported(r, "stdout_max_bytes") == [("stdout", "101, truncate", "runtime")]
    assert make(stdout_max_bytes=0).execute("print('x')").stdout == ""
    assert make(stdout_max_bytes=5).execute("print('12345')").stdout == "12345"
    whole = make().execute("print('x' * 3_000_000)")
    assert len(whole.stdout or "") == 3_000_000, "None: as much as a fleet keeps of a stream, 16 MiB"
    assert reported(whole, "stdout_max_bytes") == [("stdout", "16Mi, truncate", "runtime")]


def test_stderr_max_bytes(make: Make) -> None:
    r = make(stderr_max_bytes=100).execute(
        "import os, sys\nfor _ in range(200): os.write(2, b'e' * 100_000)\nprint('out'); sys.exit(1)"
    )
    assert (r.success, r.exit_code, r.stdout) == (False, 1, "out")
    assert len((r.stderr or "").encode()) <= 100
    assert (r.stderr or "").endswith("... [truncated]")
    assert reported(r, "stderr_max_bytes") == [("stderr", "101, truncate", "runtime")]


def test_artifact_export_paths(make: Make, tmp_path: Path) -> None:
    env = make(artifact_export_paths=[Path("/workspace/out.csv"), Path("figures")], export_dir=tmp_path / "exports")
    r = env.execute("""
import os
open("out.csv", "w").write("a,b")
open("hidden.csv", "w").write("not exported")
open("/tmp/out.csv", "w").write("not exported")
os.makedirs("figures/deep")
open("figures/deep/1.txt", "w").write("one")
os.symlink("/etc/passwd", "figures/passwd")
os.symlink("/workspace/hidden.csv", "figures/hidden")
""")
    csv, figures = r.artifacts
    assert (csv.path.name, csv.path.read_text(), csv.size_bytes) == ("out.csv", "a,b", 3)
    assert figures.path.name == "figures"
    found = sorted(
        str(p.relative_to(tmp_path / "exports")).split("/", 1)[1] for p in (tmp_path / "exports").rglob("*.*")
    )
    assert found == ["figures/deep/1.txt", "out.csv"], "nothing else left the sandbox"
    assert reported(r, "artifact_export_paths") == [
        (
            "artifacts",
            "/workspace/out.csv, /workspace/out.csv/**, /workspace/figures, /workspace/figures/**; 64Mi, 4096 files",
            "runtime",
        )
    ]
    failed = env.execute("open('out.csv', 'w').write('partial'); 1/0")
    assert (failed.success, failed.artifacts) == (False, [])
    with pytest.raises(ValueError, match=r"^artifact_export_paths: /etc/passwd"):
        make(artifact_export_paths=[Path("/etc/passwd")])


def test_packages(make: Make, indexed: str) -> None:
    with assay.Client(indexed) as client:
        options: dict[str, Any] = {"client": client, "package_installation": True, "timeout": 60}
        code = (
            f"{TRY}attempt('import', lambda: __import__('friendly').word)\n"
            "attempt('change', lambda: open(__import__('friendly').__file__, 'a'))"
        )
        for more in ({}, {"env_var_access": False}):
            r = make(packages=["friendly==1.2"], **options, **more).execute(code)
            assert r.stdout == "import done hello\nchange stopped OSError", r
            assert reported(r, "packages") == [("packages", "friendly==1.2", "runtime")]
            assert r.job is not None
            assert [line.split(" ")[0] for line in r.job.record.packages or []] == ["friendly==1.2"]
        without = make(**options).execute(code)
        assert (without.stdout or "").startswith("import stopped ModuleNotFoundError"), "only what the policy names"
        for packages in (["friendly==9.9"], ["no-such-package"]):
            r = make(packages=packages, **options).execute("print('not run')")
            assert (r.success, r.skipped, r.stdout, r.stderr) == (False, True, None, None)
            assert r.to_validationresult_reason().startswith("Package installation failed: ")
            assert packages[0].split("=")[0] in (r.skip_message or "")


def test_explain(make: Make) -> None:
    env = make(
        timeout=7, stdout_max_bytes=1000, artifact_export_paths=[Path("out")], filesystem_write_roots=[Path("/out")]
    )
    before, after = env.explain(), env.execute("print(1)").enforcement
    assert before == after
    assert list(before) == FIELDS
    assert all(before.values())


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"timeout": 0}, ValueError, "^timeout: "),
        ({"timeout": "30"}, TypeError, "^timeout: "),
        ({"network_access": "no"}, TypeError, "^network_access: "),
        ({"stdout_max_bytes": -1}, ValueError, "^stdout_max_bytes: "),
        ({"stderr_max_bytes": 1.5}, TypeError, "^stderr_max_bytes: "),
        ({"packages": "numpy", "package_installation": True}, TypeError, "^packages: "),
        ({"artifact_export_paths": [3]}, TypeError, "^artifact_export_paths: "),
        ({"filesystem_read_roots": [Path("/no/such/place")]}, ValueError, "^filesystem_read_roots: /no/such/place"),
        (
            {"filesystem_read_roots": [Path("/etc")], "filesystem_write_roots": [Path("/etc/out")]},
            ValueError,
            "^filesystem_write_roots: /etc/out lies beneath /etc",
        ),
        ({"limits": {"wall": "1h"}}, ValueError, "^limits: wall"),
        ({"working_directory": "relative"}, ValueError, "^cwd: 'relative'"),
    ],
)
def test_bad_fields(make: Make, given: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make(**given)


def test_policies_of_mellea(make: Make, client: assay.Client) -> None:
    for policy in (LOCAL_POLICY, DOCKER_POLICY):
        r = make(**{f: getattr(policy, f) for f in FIELDS}).execute("print(6 * 7)")
        assert (r.success, r.stdout) == (True, "42")


def test_what_the_fleet_refuses_names_the_field(make: Make) -> None:
    with pytest.raises(assay.InvalidError) as e:
        make(packages=["x @ git+https://example.org/x"], package_installation=True).execute("1")
    assert e.value.field.startswith("policy.packages")
