"""How sessions begin and end, and what they do in threads, processes and loops."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from pathlib import Path

import pytest

import assay
from fleet import start_fleet, stop_fleet
from process_test import python
from session_test import ended, live


def test_a_session_that_ended_says_why(client: assay.Client) -> None:
    s = client.session().start()
    assert s.start() is s
    s.close()
    assert s.close() is None
    for use in (
        lambda: s.run("1"), lambda: s.get("x"), lambda: s.set("x", 1), s.names, s.reset, s.fork, s.keep,
        lambda: s.shell("true"), lambda: s.read_file("/tmp/x"), lambda: s.write_file("/tmp/x", "x"),
        lambda: s.variables["x"],
    ):  # fmt: skip
        with pytest.raises(assay.ConflictError, match="closed by its client"):
            use()
    assert s.info().state == "ended"
    with client.session(policy={"memory": "64Mi"}) as s:
        e = s.run("x = bytearray(1 << 30)")
        if e.alive:  # it was refused as MemoryError
            e = s.run("import os; os._exit(1)")
        assert not e.alive
        assert "ended" in e.message
        with pytest.raises(assay.ConflictError, match="has ended"):
            s.run("1")


def test_before_its_start(client: assay.Client) -> None:
    s = client.session()
    with pytest.raises(RuntimeError, match="start"):
        s.run("1")
    assert s.close() is None
    with pytest.raises(assay.InvalidError, match="wall"):
        client.session(policy={"wall": "soon"}).start()
    with pytest.raises(assay.NotFoundError):
        client.attach("01a21b3e-0000-7000-8000-000000000000").start()
    with pytest.raises(ValueError, match="duration"):
        client.session(lease="soon")
    for field in ("lease", "idle_timeout"):
        with pytest.raises(ValueError, match=field):
            client.session(**{field: 0})  # type: ignore[arg-type]


def test_idle_timeout(client: assay.Client) -> None:
    s = client.session(idle_timeout=1, lease=30).start()
    assert "it was idle" in ended(client, s.id)
    with pytest.raises(assay.ConflictError, match="it was idle for 1s"):
        s.run("1")
    s.close()


def test_lease_is_kept_while_the_client_lives(client: assay.Client, url: str) -> None:
    with client.session(lease=2) as s, client.session(lease=2, functions={"f": abs}) as t:
        time.sleep(5)
        assert s.run("1").value == 1
        assert t.run("f(-2)").value == 2
        s.detach()
        assert "sent no request" in ended(client, s.id)
    code = "s = assay.Client(url).session(lease=2, functions=[abs]).start(); print(s.id, flush=True)\n"
    code += "os.kill(os.getpid(), 9)"
    assert "sent no request" in ended(client, python(url, code).stdout.split()[0])


def test_a_session_that_nobody_has_ends(client: assay.Client) -> None:
    s = client.session(lease=60).start()
    id = s.id
    del s
    gc.collect()
    assert "closed" in ended(client, id)


def test_client_that_is_closed(url: str, client: assay.Client) -> None:
    with assay.Client(url) as c:
        mine, stays = c.session().start(), c.session(lease=None, functions=[abs]).start()
        assert stays.run("abs(-1)").value == 1
    assert "closed" in ended(client, mine.id)
    assert live(client, stays.id)
    with client.attach(stays.id) as s:
        s.function(lambda x: x + 1, name="more")
        assert "no function of this name" in s.run("more(1), abs(-3)").stderr
        s.function(abs)
        assert s.run("more(1), abs(-3)").repr == "(2, 3)"
    assert live(client, stays.id), "whoever attached it did not end it"
    assert client.attach(stays.id).close().outcome == "succeeded"  # type: ignore[union-attr]


def test_close_while_a_call_is_answered(client: assay.Client) -> None:
    called, go = threading.Event(), threading.Event()

    def wait() -> str:
        called.set()
        go.wait(20)
        return "late"

    s = client.session(functions=[wait]).start()
    out: list[assay.Execution] = []
    t = threading.Thread(target=lambda: out.append(s.run("wait()")))
    t.start()
    assert called.wait(20)
    s.close()
    t.join(20)
    assert not t.is_alive()
    assert not out[0].alive
    assert "closed by its client" in out[0].message
    go.set()


# Threads, processes, loops


def test_100_threads_use_one_session(session: assay.Session) -> None:
    session.function(lambda i: i, name="echo")
    session.run("n = 0")
    failed: list[BaseException] = []

    def use(i: int) -> None:
        try:
            assert session.run(f"n += 1; echo({i})").value == i
        except BaseException as e:
            failed.append(e)

    threads = [threading.Thread(target=use, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert not failed
    assert session.get("n") == 100


def test_ctrl_c_interrupts_the_execution(client: assay.Client, url: str) -> None:
    code = """
s = assay.Client(url).session(lease=None).start()
print(s.id, flush=True)
try:
    s.run("x = 1\\nimport time; time.sleep(25)", wall=30)
except KeyboardInterrupt:
    print(s.run("x + 1").value)
"""
    began = time.monotonic()
    done = python(url, code.replace("lease=None", "lease=None, policy={'wall': '30s'}"), interrupt=True, timeout=30)
    assert done.stdout.split()[1:] == ["2"], done.stderr
    assert time.monotonic() - began < 20
    with client.attach(done.stdout.split()[0]) as s:
        assert s.get("x") == 1
        s.close()


def test_process_ends_with_a_session(client: assay.Client, url: str) -> None:
    """Functions that hang, and sessions that are open, keep no process from its end."""
    code = """
s = assay.Client(url).session(lease=2, functions={"hang": lambda: time.sleep(60)}).start()
print(s.id, flush=True)
threading.Thread(target=lambda: s.run("hang()"), daemon=True).start()
time.sleep(1)
"""
    began = time.monotonic()
    done = python(url, code, timeout=30)
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - began < 15
    ended(client, done.stdout.split()[0])


FORK = """
c = assay.Client(url)
s = c.session(functions={"whose": os.getpid}).start()
parent = os.getpid()
assert s.run("whose()").value == parent
s.run("x = 1")
pid = os.fork()
if pid == 0:
    assert s.run("x + 1").value == 2
    assert s.run("whose()").value == parent      # who started it answers
    t = c.session(functions={"whose": os.getpid}).start()
    assert t.run("whose()").value == os.getpid()
    t.close()
    os._exit(0)
_, status = os.waitpid(pid, 0)
assert s.run("whose() == %d" % parent).value is True
s.close()
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_os_fork(url: str) -> None:
    done = python(url, FORK)
    assert done.returncode == 0, done.stderr


CLOSED_LOOP = """
c = assay.AsyncClient(url)
async def begin():
    s = await c.session(functions={"f": abs}, lease=5).start()
    assert (await s.run("f(-1)")).value == 1
    return s
loop = asyncio.new_event_loop()
s = loop.run_until_complete(begin())
loop.close()                               # with the stream of calls open
async def go_on():
    assert (await s.run("f(-2)")).value == 2
    await asyncio.sleep(7)
    assert (await s.run("f(-3)")).value == 3
    return await s.close()
assert asyncio.run(go_on()).outcome == "succeeded"
"""


def test_closed_loop(url: str) -> None:
    done = python(url, CLOSED_LOOP)
    assert done.returncode == 0, done.stderr


def test_asyncio(url: str) -> None:
    async def main() -> None:
        async with assay.AsyncClient(url) as c, c.session() as s:

            @s.function
            async def ask(q: str) -> str:
                await asyncio.sleep(0.01)
                return q.upper()

            @s.function
            def block(q: str) -> str:
                time.sleep(0.01)
                return q

            assert (await s.run("ask('a') + block('b')")).value == "Ab"
            values = await asyncio.gather(*(s.run(f"{i}") for i in range(20)))
            assert [e.value for e in values] == list(range(20))
            await s.set("x", 1)
            assert await s.get("x") == 1
            assert list(await s.names()) == ["x"]
            async with await s.fork() as copy:
                assert (await copy.run("x")).value == 1
            began = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(s.run("import time; time.sleep(9)"), 0.5)
            assert (await s.run("x + 1")).value == 2, "what was canceled was interrupted"
            assert time.monotonic() - began < 8
            assert (await s.shell("cat", stdin="in")).stdout == "in"
            with pytest.raises(assay.Timeout):
                await s.run("time.sleep(9)", timeout=0.3)
        assert not hasattr(s, "variables")

    asyncio.run(main())


@pytest.mark.fleet
def test_fleet_that_goes_away(tmp_path: Path) -> None:
    """Requests to a session then raise Unreachable. Nothing waits for ever, and neither does the end of the client."""
    tmp_path.chmod(0o755)
    fleet, url = start_fleet(tmp_path / "fleet")
    try:
        c = assay.Client(url, patience=0.5)
        sessions = [c.session(functions=[abs]).start() for _ in range(3)]
        assert sessions[0].run("abs(-1)").value == 1
    finally:
        stop_fleet(fleet)
    with pytest.raises(assay.Unreachable):
        sessions[0].run("1")
    with pytest.raises(assay.Unreachable):
        sessions[1].get("x")
    began = time.monotonic()
    c.close()
    assert time.monotonic() - began < 20


def test_detached_sessions_live_on(client: assay.Client) -> None:
    s = client.session(lease=30).start()
    id = s.id
    s.detach()
    del s
    gc.collect()
    time.sleep(1)
    assert live(client, id)
    client.attach(id).close()


def test_dead_fleet() -> None:
    dead = assay.Client("http://127.0.0.1:1", patience=0.2)
    with pytest.raises(assay.Unreachable):
        dead.session().start()
    with pytest.raises(assay.Unreachable):
        dead.attach("01a21b3e-0000-7000-8000-000000000000").start()
