"""The process keeper of a sandbox, without a sandbox."""

import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from assay._inside.keeper import Keeper

OWN = f".{os.getpid()}"
"""How the arguments of sleep end, so that others on this machine are not ours."""


def sleeping() -> dict[str, int]:
    """The sleeps of these tests that live, with their processes."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline") as f:
                argv = f.read().split("\0")
        except OSError:
            continue
        if argv[0] == "sleep" and argv[1].endswith(OWN):
            found[argv[1][: -len(OWN)]] = int(name)
    return found


@pytest.fixture
def keeper() -> Iterator[Keeper]:
    yield Keeper()
    for pid in sleeping().values():
        os.kill(pid, 9)


def spawn(keeper: Keeper, name: str, script: str, timeout: float | None = None, wait: float = 10) -> dict[str, Any]:
    op = {
        "id": name, "argv": ["bash", "-c", script.replace(".N", OWN)], "stdin": False, "cwd": "/", "env": {},
        "most": 1 << 20, "keeps": False, "timeout": timeout, "seconds": wait,
    }  # fmt: skip
    return keeper.do_spawn(op)["processes"].get(name, {})


DAEMON = (
    "import os; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); "
    "[os.dup2(os.open(os.devnull, os.O_RDWR), n) for n in range(3)]; os.execvp('sleep', ['sleep', '3.N'])"
)


@pytest.mark.parametrize(
    "script",
    [
        "(setsid sleep 1.N &); sleep 2.N",
        f'{sys.executable} -c "{DAEMON}"; sleep 2.N',
        "(nohup setsid bash -c '(sleep 1.N &) ; sleep 3.N' >/dev/null 2>&1 &); exec sleep 2.N",
        "trap '' TERM INT HUP; (setsid env -i sleep 1.N &); sleep 2.N",
    ],
)
def test_a_timeout_kills_what_left_the_tree(keeper: Keeper, script: str) -> None:
    script = script.replace("1.N", "4201.N").replace("2.N", "4202.N").replace("3.N", "4203.N")
    assert spawn(keeper, "before", "setsid sleep 4290.N >/dev/null 2>&1 &")["code"] == 0
    spawn(keeper, "beside", "(setsid sleep 4291.N &); sleep 4292.N", wait=0)
    answer = spawn(keeper, "late", script, timeout=1)
    assert (answer["timed_out"], answer["code"]) == (True, -9)
    assert set(sleeping()) == {"4290", "4291", "4292"}


def test_a_kill_reaches_what_starts_more(keeper: Keeper) -> None:
    spawn(keeper, "many", "setsid bash -c 'while :; do (sleep 4205.N &); sleep 0.01; done' & sleep 4206.N", wait=0.5)
    keeper.do_kill({"process": "many"})
    time.sleep(0.3)
    assert not sleeping()
