"""Sandboxes: processes and files of one session, on a real fleet."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

import assay


@pytest.fixture(scope="module")
def box(url: str) -> Iterator[assay.Sandbox]:
    with assay.Client(url) as client, client.sandbox() as b:
        yield b


def test_streams_and_exit_codes_are_the_programs(box: assay.Sandbox) -> None:
    done = box.exec("echo out; echo err >&2; exit 3")
    assert (done.stdout, done.stderr, done.exit_code, done.ok) == (b"out\n", b"err\n", 3, False)
    assert box.exec(["printf", "%s", "a b", "$HOME"]).stdout == b"a b$HOME"
    assert box.exec("kill -TERM $$").exit_code == -signal.SIGTERM
    assert box.exec("echo x > /dev/stderr; echo y > /dev/stderr").stderr == b"x\ny\n"


def test_a_command_finds_its_directory_environment_and_input(box: assay.Sandbox) -> None:
    box.write_file("sub/x", "")
    assert box.exec("pwd").stdout == b"/workspace\n"
    assert box.exec("pwd; ls", cwd="sub").stdout == b"/workspace/sub\nx\n"
    assert box.exec("echo $A-$HOME", env={"A": "b c"}).stdout.startswith(b"b c-/")
    assert box.exec("cat").stdout == b""
    every = bytes(range(256)) * 3
    assert box.exec(["cat"], stdin=every).stdout == every
    assert box.exec(["cat"], stdin="").stdout == b""
    assert box.exec(["wc", "-c"], stdin=b"x" * (30 << 20)).stdout.strip() == str(30 << 20).encode()


def test_what_cannot_be_started_is_an_error_with_its_errno(box: assay.Sandbox) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-command"):
        box.exec(["no-such-command"])
    with pytest.raises(FileNotFoundError, match="/no-such-directory"):
        box.exec("ls", cwd="/no-such-directory")
    with pytest.raises(NotADirectoryError):
        box.spawn("ls", cwd="/etc/passwd")
    with pytest.raises(PermissionError, match="/etc/passwd"):
        box.exec(["/etc/passwd"])
    with pytest.raises(OSError) as e:
        box.exec(["echo", "x" * (1 << 20)])
    assert e.value.errno == errno.E2BIG
    with pytest.raises(ValueError, match="null byte"):
        box.exec(["echo", "a\0b"])


@pytest.mark.parametrize(
    ("argv", "options"),
    [([], {}), (b"ls", {}), (["a", 1], {}), ("ls", {"timeout": 0}), ("ls", {"limit": -1}), ("ls", {"env": {"A": 1}})],
)
def test_arguments_of_no_use_are_refused_here(box: assay.Sandbox, argv: object, options: dict[str, object]) -> None:
    with pytest.raises((TypeError, ValueError)):
        box.exec(argv, **options)  # type: ignore[arg-type]


def test_a_timeout_kills_all_that_a_command_started(box: assay.Sandbox) -> None:
    began = time.monotonic()
    done = box.exec("echo begun; setsid sleep 4321 & (sleep 4321; true) & sleep 4321", timeout=0.5)
    assert done.timed_out
    assert (done.exit_code, done.stdout) == (-9, b"begun\n")
    assert time.monotonic() - began < 5
    assert b"4321" not in box.exec("cat /proc/[0-9]*/cmdline").stdout.replace(b"cat", b"")


def test_what_runs_on_in_the_background_does_not_hold_its_command(box: assay.Sandbox) -> None:
    began = time.monotonic()
    assert box.exec("(sleep 1.5; echo late; touch done) & echo now").stdout == b"now\n"
    assert time.monotonic() - began < 1.2
    while box.exec("test -e done").exit_code:
        time.sleep(0.1)
        assert time.monotonic() - began < 10


def test_a_command_that_writes_more_than_its_limit_is_ended(box: assay.Sandbox) -> None:
    done = box.exec("yes >&2", limit=100_000, timeout=60)
    assert done.truncated
    assert not done.timed_out
    assert len(done.stderr) == 100_000
    assert len(box.exec("head -c 30000000 /dev/zero").stdout) == 30_000_000
    assert box.exec("head -c 1000 /dev/zero", limit=1000).ok


def test_files_are_bytes_of_any_size(box: assay.Sandbox) -> None:
    for size in (0, 1, 300_000, 20 << 20):
        data = os.urandom(size)
        box.write_file(f"dir/{size}", data)
        assert box.read_file(f"dir/{size}") == data
    box.write_file("text", "ä\r\n")
    box.write_file("text", "é")
    assert box.read_file("/workspace/text") == "é".encode()
    box.exec("ln -s text link; head -c 100000 /dev/urandom > noise")
    assert box.read_file("link") == "é".encode()
    assert box.read_file("/proc/self/status").startswith(b"Name:")
    assert len(box.read_file("noise", limit=100_000)) == 100_000
    with pytest.raises(OSError) as e:
        box.read_file("noise", limit=99_999)
    assert e.value.errno == errno.EFBIG
    assert box.read_head("text", 1) == "é".encode()[:1]
    assert len(box.read_head("noise", 200_000)) == 100_000


def test_files_of_100_mib_go_in_and_out(client: assay.Client) -> None:
    data = os.urandom(1 << 20) * 100
    with client.sandbox() as b:
        b.write_file("big", data)
        assert b.exec("stat -c %s big").stdout == b"104857600\n"
        assert b.read_file("big") == data
        assert b.exec("cp big 1; cp big 2; cp big 3").ok
        with pytest.raises(OSError) as e:
            b.write_file("4", data * 2)
        assert e.value.errno == errno.ENOSPC
        assert b.exec("echo alive").ok


def test_errors_of_files_are_those_of_the_sandbox(box: assay.Sandbox) -> None:
    box.write_file("secret", "x")
    box.exec("chmod 0 secret; mkfifo pipe")
    for path, kind in (("secret", PermissionError), ("/etc", IsADirectoryError), ("none", FileNotFoundError)):
        with pytest.raises(kind, match=path):
            box.read_file(path)
    for path, kind in (("secret", PermissionError), ("/tmp", IsADirectoryError), ("secret/x", NotADirectoryError)):
        with pytest.raises(kind):
            box.write_file(path, "x")
    with pytest.raises(OSError) as e:
        box.write_file("/usr/x", "x")
    assert e.value.errno == errno.EROFS
    with pytest.raises(OSError) as e:
        box.write_file("pipe", "nobody reads it")
    assert e.value.errno == errno.ENXIO
    assert box.read_file("pipe") == b""


def test_a_process_is_spoken_with_while_it_runs(box: assay.Sandbox) -> None:
    p = box.spawn(["python3", "-u", "-c", "while True: print(input()[::-1])"], stdin=True)
    p.write("abc\n")
    assert p.read(wait=20) == (b"cba\n", b"")
    assert p.read() == (b"", b"")
    assert p.poll() is None
    p.write(b"d\n")
    p.close_stdin()
    assert p.wait(timeout=20) == 1
    out, err = p.read()
    assert out == b"d\n"
    assert b"EOFError" in err
    assert p.read(wait=5) == (b"", b"")
    with pytest.raises(BrokenPipeError):
        p.write("more")


def test_a_process_that_writes_much_waits_for_its_reader(box: assay.Sandbox) -> None:
    p = box.spawn("head -c 80000000 /dev/zero; echo end >&2")
    with pytest.raises(assay.Timeout):
        p.wait(timeout=3)
    total, err = 0, b""
    while p.poll() is None or total < 80_000_000:
        out, more = p.read(wait=5)
        total, err = total + len(out), err + more
    assert (total, err or p.read()[1]) == (80_000_000, b"end\n")


def test_signals_go_to_the_group_of_a_process(box: assay.Sandbox) -> None:
    p = box.spawn("trap 'echo got; exit 5' INT; echo ready; while :; do sleep 0.1; done")
    assert p.read(wait=20)[0] == b"ready\n"
    p.signal(signal.SIGINT)
    assert p.wait(timeout=20) == 5
    assert p.read()[0] == b"got\n"
    p.terminate()
    q = box.spawn("sleep 1000")
    q.kill()
    assert q.wait(timeout=20) == -9


def test_many_commands_run_at_once_and_none_waits_for_another(box: assay.Sandbox) -> None:
    long = box.spawn("sleep 30")
    waiting = threading.Thread(target=long.wait, daemon=True)
    waiting.start()
    time.sleep(1)
    took: list[float] = []
    for _ in range(10):
        began = time.monotonic()
        assert box.exec("echo x").ok
        took.append(time.monotonic() - began)
    assert sorted(took)[5] < 0.5, took
    done: list[bytes] = []
    threads = [
        threading.Thread(target=lambda i=i: done.append(box.exec(f"sleep 1; echo {i}").stdout)) for i in range(20)
    ]
    began = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert sorted(done) == sorted(b"%d\n" % i for i in range(20))
    assert time.monotonic() - began < 15
    long.kill()
    waiting.join(20)
    assert not waiting.is_alive()


def test_the_policy_is_laid_over_that_of_sandboxes(client: assay.Client) -> None:
    with client.sandbox(policy={"memory": "200Mi", "disk": "8Mi", "files": 50}, env={"A": "1"}, cwd="/tmp") as b:
        assert b.exec("echo $A; pwd").stdout == b"1\n/tmp\n"
        assert b.exec("echo $A", env={"A": "2"}).stdout == b"2\n"
        with pytest.raises(OSError) as e:
            b.write_file("x", b"x" * (9 << 20))
        assert e.value.errno == errno.ENOSPC
    for useless in ({"imports": {"deny": ["os"]}}, {"subprocesses": False}):
        with pytest.raises(ValueError, match=next(iter(useless))):
            client.sandbox(policy=useless).start()
    with pytest.raises(assay.InvalidError) as invalid:
        client.sandbox(policy={"memory": "plenty"}).start()
    assert invalid.value.field == "policy.memory"


def test_a_sandbox_that_has_ended_says_why(client: assay.Client) -> None:
    b = client.sandbox(policy={"memory": "100Mi"}).start()
    with pytest.raises(assay.ConflictError, match="memory"):
        b.exec(["python3", "-c", "x = b'x' * 300_000_000"])
    with pytest.raises(assay.ConflictError, match="memory"):
        b.read_file("/etc/passwd")
    b.close()
    b = client.sandbox().start()
    p = b.spawn("sleep 100")
    client.api.close_session(b.id)
    for use in (lambda: b.exec("ls"), p.wait, p.read, lambda: b.write_file("x", "")):
        with pytest.raises(assay.ConflictError, match="closed by its client"):
            use()
    b.close()
    b.close()
    with pytest.raises(ValueError, match="closed"):
        b.start()
    with pytest.raises(ValueError, match="not started"):
        client.sandbox().exec("ls")


def test_a_lease_is_kept_while_the_client_lives_and_over_when_it_is_gone(client: assay.Client) -> None:
    b = client.sandbox(lease=1.0).start()
    time.sleep(3)
    assert b.exec("echo alive").ok
    b._tasks.stop()  # pyright: ignore[reportPrivateUsage]
    until = time.monotonic() + 20
    while client.api.get_session(b.id).state == "live":
        assert time.monotonic() < until
        time.sleep(0.2)


def test_programs_cannot_forge_what_the_client_is_told(box: assay.Sandbox) -> None:
    assert box.exec("kill -INT 2; kill -INT 2; sleep 0.2; echo on").stdout == b"on\n"
    assert box.exec("rm -rf /tmp/* /workspace/* 2>/dev/null; echo on").stdout == b"on\n"
    assert box.exec(["sh", "-c", "exec 1>&- 2>&-; sleep 0.3; exit 4"]).exit_code == 4


class Losing(httpx.BaseTransport):
    """Loses every third answer to an execution."""

    def __init__(self) -> None:
        self.inner, self.count, self.lost = httpx.HTTPTransport(), 0, 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.inner.handle_request(request)
        if request.url.path.endswith("/execute"):
            self.count += 1
            if self.count % 3 == 0:
                self.lost += 1
                response.read()
                raise httpx.ReadError("lost", request=request)
        return response


def test_an_answer_that_was_lost_is_asked_for_again_and_nothing_happens_twice(url: str) -> None:
    losing = Losing()
    with assay.Client(url, transport=losing) as client, client.sandbox() as b:
        for _ in range(8):
            assert b.exec("echo x >> log; echo done").stdout == b"done\n"
        p = b.spawn(["cat"], stdin=True)
        for i in range(8):
            p.write(f"{i}\n")
        p.close_stdin()
        p.wait(timeout=30)
        assert p.read()[0] == b"".join(b"%d\n" % i for i in range(8))
        assert b.read_file("log") == b"x\n" * 8
    assert losing.lost > 5


def test_a_fleet_that_is_gone_is_an_error_soon(url: str) -> None:
    with assay.Client("http://127.0.0.1:9", patience=0.5) as client, pytest.raises(assay.Unreachable):
        client.sandbox().start()


def test_async_commands_run_at_once_and_end_with_whoever_waits(url: str) -> None:
    async def main() -> None:
        async with assay.AsyncClient(url) as client, client.sandbox() as b:
            began = time.monotonic()
            done = await asyncio.gather(*(b.exec(f"sleep 1; echo {i}") for i in range(10)))
            assert [d.stdout for d in done] == [b"%d\n" % i for i in range(10)]
            assert time.monotonic() - began < 8
            task = asyncio.create_task(b.exec("touch begun; sleep 5555; touch ended"))
            while (await b.exec("test -e begun")).exit_code:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert b"5555" not in (await b.exec("cat /proc/[0-9]*/cmdline; true")).stdout.replace(b"cat", b"")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for((await b.spawn("sleep 60")).wait(), 1.0)
            began = time.monotonic()
            assert (await b.exec("echo on")).stdout == b"on\n"
            assert time.monotonic() - began < 2

    asyncio.run(main())
