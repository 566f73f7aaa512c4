"""A real fleet for tests: `assay dev` in a directory of its own, on a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

from generating import ROOT

NO_FLEET = "ASSAY_TEST_NO_FLEET"  # set in the environment of tests that must not start one


def start_fleet(data: Path, env: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], str]:
    """Starts a fleet and returns it with its address. A fleet that is not ready within two minutes fails the tests."""
    assert NO_FLEET not in os.environ, "this test starts a fleet: mark it with pytest.mark.fleet"
    log = (data.parent / (data.name + ".log")).open("w")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    command = [str(ROOT.parent.parent / "bin" / "assay"), "dev", "--data", str(data), "--listen", "127.0.0.1:0"]
    fleet = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        env={**environment, **(env or {})},
        start_new_session=True,
    )
    assert fleet.stdout
    timer = subprocess.Popen(["sh", "-c", f"sleep 120; kill -TERM {fleet.pid}"], start_new_session=True)
    try:
        line = fleet.stdout.readline()
    finally:
        os.killpg(timer.pid, signal.SIGKILL)
        timer.wait()
    ready = re.search(r"ready on (\S+)", line)
    assert ready, f"no fleet: {line!r}; {Path(log.name).read_text()}"
    return fleet, ready[1]


def stop_fleet(fleet: subprocess.Popen[str]) -> None:
    """Ends a fleet and waits for it."""
    fleet.send_signal(signal.SIGTERM)
    fleet.wait(90)


def kill_worker(fleet: subprocess.Popen[str]) -> None:
    """Kills the worker of a fleet, as a host that loses power does. The fleet starts another one."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            program = (entry / "cmdline").read_bytes().split(b"\0")[0]
        except OSError:
            continue  # it has ended meanwhile
        if parent == fleet.pid and program.endswith(b"/worker"):
            os.kill(int(entry.name), signal.SIGKILL)
            return
    raise AssertionError("the fleet has no worker")
