"""Notebooks: cells of a real kernel, whose thread has an event loop running, and a user's interrupt."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

import assay

# The kernel (ipykernel 7.4) hears of an interrupt of a cell that awaits when its loop next wakes for something else.
TICK = """
async def tick():
    while True:
        await asyncio.sleep(0.1)
ticking = asyncio.ensure_future(tick())
"""


class Notebook:
    """A running kernel.

    Args:
        manager: a KernelManager of jupyter_client.
        client: a BlockingKernelClient of it.
    """

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    def start(self, cell: str) -> str:
        return self._client.execute(cell)

    def end(self, id: str, seconds: float = 30) -> dict[str, Any]:
        """How a cell ended."""
        until = time.monotonic() + seconds
        while True:
            reply = self._client.get_shell_msg(timeout=max(until - time.monotonic(), 0.1))
            if reply["parent_header"].get("msg_id") == id:
                return reply["content"]

    def run(self, cell: str) -> None:
        content = self.end(self.start(cell))
        assert content["status"] == "ok", content

    def interrupt(self) -> None:
        self._manager.interrupt_kernel()


@pytest.fixture(scope="module")
def notebook(url: str) -> Iterator[Notebook]:
    from jupyter_client.manager import KernelManager  # not there where only tests without a fleet are collected

    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, "ASSAY_URL": url})
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        notebook = Notebook(manager, client)
        notebook.run("import asyncio, assay; asynchronous = assay.AsyncClient()")
        notebook.run(TICK)
        yield notebook
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_cells(notebook: Notebook) -> None:
    """Blocking and awaited calls, beside a running loop."""
    notebook.run("assert asyncio.get_running_loop()")
    notebook.run("assert assay.run('print(1)').stdout == '1\\n'")
    notebook.run("assert [r.stdout for r in assay.map(['print(1)', 'print(2)'])] == ['1\\n', '2\\n']")
    notebook.run("assert assay.submit('print(1)').result(20).stdout == '1\\n'")
    notebook.run("assert (await assay.submit('print(1)')).stdout == '1\\n'")
    notebook.run("assert (await asynchronous.run('print(1)')).stdout == '1\\n'")
    notebook.run("assert [r.stdout async for r in asynchronous.map(['print(1)'])] == ['1\\n']")
    tests = {"function": "f", "cases": [{"args": [], "expected": 1}]}
    notebook.run(f"assert assay.grade(['def f(): return 1'], {tests}, progress=True) == [1.0]")


@pytest.mark.parametrize(
    "cell",
    [
        "assay.run(job)",
        "list(assay.map([job] * 3))",
        "list(assay.default_client().submit_batch([job] * 3).results())",
        "await asynchronous.run(job)",
        "[r async for r in asynchronous.map([job] * 3)]",
        "await asynchronous.submit(job)",
    ],
)
def test_interrupt(notebook: Notebook, client: assay.Client, cell: str) -> None:
    """It ends the cell at once, cancels the awaited work, and the next cell runs."""
    label = str(uuid.uuid4())
    notebook.run(f"job = assay.job('import time; time.sleep(25)', labels={{'test': '{label}'}})")
    id = notebook.start(cell)
    wait_for(lambda: client.api.list_jobs(label=[f"test={label}"]).jobs)
    began = time.monotonic()
    notebook.interrupt()
    content = notebook.end(id)
    assert time.monotonic() - began < 12
    assert content["status"] == "error", content
    assert content["ename"] in ("KeyboardInterrupt", "CancelledError")
    notebook.run("assert assay.run('print(1)').stdout == '1\\n'")
    notebook.run("assert (await asynchronous.run('print(1)')).stdout == '1\\n'")
    if "submit_batch" not in cell:  # which goes on until its own end
        wait_for(lambda: all(j.outcome == "canceled" for j in client.api.list_jobs(label=[f"test={label}"]).jobs))


def test_interrupt_of_a_future(notebook: Notebook, client: assay.Client) -> None:
    """A future is there still, and can be waited for again, or canceled."""
    notebook.run("future = assay.submit('import time; time.sleep(6); print(1)')")
    id = notebook.start("future.result()")
    time.sleep(1)
    notebook.interrupt()
    assert notebook.end(id)["ename"] == "KeyboardInterrupt"
    notebook.run("assert future.result(30).stdout == '1\\n'")


def wait_for(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)
