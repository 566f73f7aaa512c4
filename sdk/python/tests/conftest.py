"""One real fleet for all tests: `assay dev` in a directory of its own, on a free port."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay

ROOT = Path(__file__).resolve().parents[3]


def start_fleet(data: Path, env: dict[str, str] | None = None) -> tuple[subprocess.Popen[str], str]:
    """Starts a fleet and returns it with its address. A fleet that is not ready within two minutes fails the tests."""
    log = (data.parent / (data.name + ".log")).open("w")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ASSAY_")}
    command = [str(ROOT / "bin" / "assay"), "dev", "--data", str(data), "--listen", "127.0.0.1:0"]
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
    fleet.send_signal(signal.SIGTERM)
    fleet.wait(90)


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Address of the fleet; ASSAY_TEST_URL names one that runs already."""
    if given := os.environ.get("ASSAY_TEST_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="assay-sdk-") as directory:
        fleet, address = start_fleet(Path(directory) / "fleet")
        yield address
        stop_fleet(fleet)


@pytest.fixture
def client(url: str) -> Iterator[assay.Client]:
    with assay.Client(url) as c:
        yield c
