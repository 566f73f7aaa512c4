"""An AssayInterpreter whose session or fleet is gone, and floods."""

from __future__ import annotations

import gc
import signal
import threading
import time
from pathlib import Path

import httpx
import pytest
from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError

import assay
from assay.integrations.dspy import AssayInterpreter
from fleet import kill_worker, start_fleet, stop_fleet


def ended(i: AssayInterpreter, *words: str) -> None:
    """It raises now and later, and never starts again."""
    for code in ("x", "y = 1"):
        with pytest.raises(CodeInterpreterError) as e:
            i.execute(code)
        assert not isinstance(e.value, CodeExecutionError)
        for word in words:
            assert word in str(e.value)
    i.shutdown()


def test_idle(client: assay.Client) -> None:
    i = AssayInterpreter(client=client, idle_timeout=1)
    i.execute("x = 1")
    time.sleep(4)
    ended(i, "ended")


def test_ended_by_somebody_else(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    i.execute("x = 1")
    client.api.close_session(i.session_id or "")
    ended(i, "ended")


def test_memory(client: assay.Client) -> None:
    i = AssayInterpreter(client=client, policy={"memory": "64Mi"})
    i.execute("x = 1")
    with pytest.raises(CodeInterpreterError, match="out_of_memory") as e:
        i.execute("b'x' * (1 << 30)\nblocks = [bytearray(1 << 20) for _ in range(1000)]")
    assert not isinstance(e.value, CodeExecutionError)
    ended(i, "out_of_memory")


def test_code_that_ends_the_process(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    with pytest.raises(CodeInterpreterError, match="ended"):
        i.execute("import os; os._exit(0)")
    ended(i, "ended")


def test_waiting_for_a_tool_when_it_ends(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    i.tools["close"] = lambda: client.api.close_session(i.session_id or "") and None
    with pytest.raises(CodeInterpreterError, match="ended"):
        i.execute("close()\nimport time; time.sleep(60)")
    ended(i, "ended")


def test_shutdown_by_another_thread(client: assay.Client) -> None:
    i = AssayInterpreter(client=client)
    i.start()
    threading.Timer(0.5, i.shutdown).start()
    with pytest.raises(CodeInterpreterError, match="closed"):
        i.execute("import time; time.sleep(60)")
    ended(i, "closed")


def test_ctrl_c(client: assay.Client) -> None:
    """It interrupts the code, and the session lives."""
    with AssayInterpreter(client=client) as i:
        i.execute("x = 1")
        signal.signal(
            signal.SIGINT, signal.default_int_handler
        )  # a shell that runs tests in the background has it ignored
        main = threading.main_thread().ident or 0
        threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            i.execute("import time\nfor _ in range(60): time.sleep(1)")
        assert i.execute("x") == 1
        assert time.monotonic() - began < 30


def test_forgotten(client: assay.Client) -> None:
    """Dropping an interpreter ends its session."""
    i = AssayInterpreter({"f": len}, client=client)
    assert i.execute("f('abc')") == 3
    session = i.session_id or ""
    del i
    gc.collect()
    end = time.monotonic() + 30
    while client.api.get_session(session).state != "ended" and time.monotonic() < end:
        time.sleep(0.1)
    assert client.api.get_session(session).state == "ended"


def test_worker_that_is_gone(tmp_path: Path) -> None:
    """A waiting execution gets an error, and so does a tool that is answered too late."""
    fleet, url = start_fleet(tmp_path / "fleet")
    try:
        with assay.Client(url) as client:
            i = AssayInterpreter(client=client)
            i.tools["kill"] = lambda: kill_worker(fleet)
            with pytest.raises(CodeInterpreterError, match="lost"):
                i.execute("kill()\nimport time; time.sleep(60)")
            ended(i, "lost")
    finally:
        stop_fleet(fleet)


class Switch(httpx.BaseTransport):
    """A network that can be cut."""

    def __init__(self) -> None:
        self.inner, self.cut = httpx.HTTPTransport(), False

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if self.cut:
            raise httpx.ConnectError("cut")
        return self.inner.handle_request(request)


def test_fleet_out_of_reach(url: str) -> None:
    network = Switch()
    with assay.Client(url, patience=0.2, transport=network) as client:
        i = AssayInterpreter(client=client)
        i.execute("x = 1")
        network.cut = True
        began = time.monotonic()
        ended(i, "ended")
        assert time.monotonic() - began < 20


def test_dead_fleet() -> None:
    with assay.Client("http://127.0.0.1:1", patience=0) as client:
        i = AssayInterpreter(client=client)
        with pytest.raises(CodeInterpreterError):
            i.start()
        with pytest.raises(CodeInterpreterError):
            i.execute("1")
        i.shutdown()


def test_refused(client: assay.Client) -> None:
    i = AssayInterpreter(client=client, policy={"memory": "lots"})
    with pytest.raises(CodeInterpreterError, match=r"policy\.memory"):
        i.execute("1")


def test_flood(client: assay.Client) -> None:
    """20 MiB to each stream: the beginning and the end come back."""
    with AssayInterpreter(client=client) as i:
        text = i.execute("import sys\nprint('first')\nfor _ in range(20): print('x' * (1 << 20))\nprint('last')")
        assert text.startswith("first\n")
        assert text.endswith("last")
        assert len(text) < 1 << 20
        with pytest.raises(CodeExecutionError, match=r"^ValueError: y+"):
            i.execute("raise ValueError('y' * (20 << 20))")
        assert i.execute("1") == 1


def test_flood_of_calls(client: assay.Client) -> None:
    """Too much data for a call is an error there, and does not end the session."""
    with AssayInterpreter({"size": lambda text: len(text)}, client=client) as i:
        with pytest.raises(CodeExecutionError, match="CallError"):
            i.execute("size('x' * (20 << 20))")
        assert i.execute("size('x' * (1 << 20))") == 1 << 20
    with AssayInterpreter({"much": lambda: "x" * (20 << 20)}, client=client) as i:
        with pytest.raises(CodeExecutionError, match="CallError"):
            i.execute("len(much())")
        assert i.execute("1") == 1
