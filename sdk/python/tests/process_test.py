"""Effects of processes on a client: fork, interrupt, end, closed loops. Each test runs in a process of its own."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import assay

# Tests in the background ignore SIGINT, and children inherit that.
HEAD = """
import assay, asyncio, os, signal, sys, threading, time
signal.signal(signal.SIGINT, signal.default_int_handler)
url = sys.argv[1]
"""


def python(url: str, code: str, *, interrupt: bool = False, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """Runs code; with interrupt, Ctrl-C comes a second after it prints its first line."""
    p = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", HEAD + code, url],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        first = ""
        if interrupt:
            assert p.stdout
            first = p.stdout.readline()
            time.sleep(1)
            p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=timeout)
        return subprocess.CompletedProcess(p.args, p.returncode, first + out, err)
    finally:
        p.kill()
        p.wait()


FORK = """
c = assay.Client(url)
assert c.run("print(1)").stdout == "1\\n"
assert c.submit("print(2)").result(30).stdout == "2\\n"
held = threading.Event()
def hold():                       # another thread has the locks at the moment of the fork
    with c._transport._lock, c._submitter._lock:
        held.set(); time.sleep(3)
threading.Thread(target=hold, daemon=True).start(); held.wait()
pid = os.fork()
if pid == 0:
    assert c.run("print(3)").stdout == "3\\n"
    assert c.submit("print(4)").result(30).stdout == "4\\n"
    assert [r.stdout for r in c.map(["print(5)"])] == ["5\\n"]
    os._exit(0)
time.sleep(3.1)
assert c.run("print(6)").stdout == "6\\n"     # the parent's connections are its own still
assert c.submit("print(7)").result(30).stdout == "7\\n"
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_fork(url: str) -> None:
    done = python(url, FORK)
    assert done.returncode == 0, done.stderr


POOL = """
import multiprocessing
c = assay.Client(url)
c.run("1")
def work(i):
    return c.run(f"print({i})").stdout
with multiprocessing.get_context("fork").Pool(3) as pool:
    assert pool.map(work, range(9)) == [f"{i}\\n" for i in range(9)]
"""


def test_forked_pool(url: str) -> None:
    done = python(url, POOL)
    assert done.returncode == 0, done.stderr


def interrupted(client: assay.Client, url: str, code: str) -> None:
    """Ctrl-C ends it at once, and cancels unfinished jobs."""
    began = time.monotonic()
    done = python(url, code, interrupt=True, timeout=20)
    assert "KeyboardInterrupt" in done.stderr, done.stderr
    assert time.monotonic() - began < 18
    label = done.stdout.split()[0]
    end = time.monotonic() + 20
    while True:
        jobs = client.api.list_jobs(label=f"test={label}").jobs
        if jobs and all(j.outcome == "canceled" for j in jobs):
            return
        assert time.monotonic() < end, [(j.state, j.outcome) for j in jobs]
        time.sleep(0.1)


MARK = "import uuid; label = str(uuid.uuid4()); print(label, flush=True)\n"
SLOW = 'assay.job("import time; time.sleep(25)", labels={"test": label})'


def test_interrupt_of_run(client: assay.Client, url: str) -> None:
    interrupted(client, url, MARK + f"assay.Client(url).run({SLOW})")


def test_interrupt_of_map(client: assay.Client, url: str) -> None:
    interrupted(client, url, MARK + f"list(assay.Client(url).map([{SLOW}] * 3))")


def test_interrupt_of_asyncio(client: assay.Client, url: str) -> None:
    interrupted(client, url, MARK + f"asyncio.run(assay.AsyncClient(url).run({SLOW}))")


def test_interrupt_of_a_future(client: assay.Client, url: str) -> None:
    code = f"with assay.Client(url) as c:\n    f = c.submit({SLOW})\n    f.result()"
    interrupted(client, url, MARK + code)


def test_process_ends_with_work_under_way(url: str) -> None:
    code = """
c = assay.Client(url)
futures = [c.submit("import time; time.sleep(20)") for _ in range(3)]
stream = c.map(["import time; time.sleep(20)"] * 3); threading.Thread(target=lambda: next(stream), daemon=True).start()
time.sleep(1)
"""
    began = time.monotonic()
    assert python(url, code, timeout=30).returncode == 0
    assert time.monotonic() - began < 12


def test_closed_loop(url: str) -> None:
    code = """
c = assay.AsyncClient(url)
loop = asyncio.new_event_loop()
async def start():
    return c.submit("import time; time.sleep(20)"), await c.run("1")
loop.run_until_complete(start())
loop.close()                                   # with a job under way
assert asyncio.run(c.run("print(1)")).stdout == "1\\n"
def other():
    async def main():
        return (await c.run("print(2)")).stdout, [r.stdout async for r in c.map(["print(3)"])]
    assert asyncio.run(main()) == ("2\\n", ["3\\n"])
threads = [threading.Thread(target=other) for _ in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
asyncio.run(c.aclose())
"""
    done = python(url, code)
    assert done.returncode == 0, done.stderr


def test_lease_ends_the_jobs_of_a_client_that_died(client: assay.Client, url: str) -> None:
    code = (
        MARK
        + f"""
stream = assay.Client(url).map([{SLOW}] * 3, lease=5)
threading.Thread(target=lambda: next(stream), daemon=True).start()
time.sleep(2); os.kill(os.getpid(), signal.SIGKILL)
"""
    )
    label = python(url, code).stdout.split()[0]
    end = time.monotonic() + 25
    while not (jobs := client.api.list_jobs(label=f"test={label}", outcome="canceled").jobs):
        assert time.monotonic() < end
        time.sleep(0.2)
    assert jobs


def test_lease_is_kept_while_nobody_takes_results(client: assay.Client) -> None:
    stream = client.map(["print(1)"] * 2 + ["import time; time.sleep(12); print(2)"], lease=5, order="completed")
    next(stream)
    time.sleep(9)
    assert sorted(r.stdout for r in stream) == ["1\n", "2\n"]
