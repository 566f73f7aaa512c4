"""Many programs: batches, map, futures."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Literal

import pytest

import assay
from assay._held import Held


def programs(n: int) -> Iterator[str]:
    return (f"print({i})" for i in range(n))


def test_batch(client: assay.Client) -> None:
    b = client.submit_batch(["print(1)", ["/bin/false"]], name="two", labels={"l": "m"}, lease=30)
    assert sorted(r.outcome for r in b.results(timeout=60)) == ["failed", "succeeded"]
    s = b.wait(60)
    assert (s.name, s.total, s.outcomes, s.lease) == ("two", 2, {"failed": 1, "succeeded": 1}, "30s")
    assert [x.id for x in itertools.islice(client.batches(), 1)] == [b.id]
    brief = list(client.batch(b.id).results(follow=False, fields=["id", "outcome"]))
    assert all(set(r.raw) == {"id", "outcome"} for r in brief)
    assert [p.counts["finished"] for p in b.progress()][-1] == 2
    again = b.retry()
    assert again.submitted is not None
    assert (again.submitted.retry_of, again.submitted.total) == (b.id, 1)
    with pytest.raises(assay.NotFoundError):
        client.batch(str(uuid.UUID(int=7))).status()


def test_batch_is_all_or_none(client: assay.Client) -> None:
    def broken() -> Iterator[str]:
        yield "print(1)"
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        client.submit_batch(broken(), name="broken")
    with pytest.raises(assay.InvalidError) as e:
        client.submit_batch(["print(1)", {"program": {"python": {}}}])
    assert e.value.line == 2
    with pytest.raises(ValueError, match="one job"):
        client.submit_batch([])
    assert "broken" not in {b.name for b in itertools.islice(client.batches(), 20)}


def test_same_key_is_same_batch(client: assay.Client) -> None:
    key = str(uuid.uuid4())
    first = client.submit_batch(programs(3), key=key)
    assert client.submit_batch(programs(3), key=key).id == first.id
    with pytest.raises(assay.KeyUsedError):
        client.submit_batch(programs(4), key=key)


def test_large_batch_is_uploaded(client: assay.Client) -> None:
    key = str(uuid.uuid4())
    jobs = [f"x = {'y' * (1 << 19)!r}" for _ in range(20)]
    b = client.submit_batch(jobs, name="large", labels={"l": "m"}, lease=60, key=key)
    assert b.submitted is not None
    assert (b.submitted.name, b.submitted.labels, b.submitted.lease) == ("large", {"l": "m"}, "1m0s")
    assert client.submit_batch(jobs, name="large", labels={"l": "m"}, lease=60, key=key).id == b.id
    assert b.wait(60).outcomes == {"succeeded": 20}
    with pytest.raises(assay.ConflictError, match="other bytes"):
        client.submit_batch([*jobs, *jobs], name="large", labels={"l": "m"}, lease=60, key=key)
    with pytest.raises(assay.InvalidError, match="line 20") as e:
        client.submit_batch([*jobs[:19], {"program": {"python": {}}}], name="wrong")
    assert e.value.line == 20


@pytest.mark.parametrize("order", ["input", "completed"])
def test_map(client: assay.Client, order: str) -> None:
    taken = 0

    def items() -> Iterator[str]:
        nonlocal taken
        for p in programs(300):
            taken += 1
            yield p

    stream = client.map(items(), order=order, chunk=20, window=60)  # type: ignore[arg-type]
    seen = []
    for given, r in enumerate(stream):
        assert taken - given <= 60, "it takes no more than the window"
        assert r.stdout == f"{r.index}\n"
        assert r.item == f"print({r.index})"
        seen.append(r.index)
    assert sorted(seen) == list(range(300))
    assert order == "completed" or seen == list(range(300))


def test_results_that_wait_are_not_all_in_memory(client: assay.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay._held.HELD_BYTES", 100_000)
    away = 0
    put = Held.put

    def counted(self: Held, result: assay.Result) -> None:
        nonlocal away
        put(self, result)
        away += result.index in self._away

    monkeypatch.setattr(Held, "put", counted)
    items = ["import time; time.sleep(3); print('last')", *(f"print('{i} ' * 10000)" for i in range(20))]
    results = list(client.map(items))
    assert results[0].stdout == "last\n"
    assert [r.stdout.split()[0] for r in results[1:]] == [str(i) for i in range(20)]
    assert [r.item for r in results] == items
    assert away > 3


def test_map_of_nothing(client: assay.Client) -> None:
    assert list(client.map([])) == []


def test_map_stops(client: assay.Client) -> None:
    """Stopping early leaves nothing behind: unfinished jobs are canceled."""
    name = str(uuid.uuid4())
    with client.map((f"import time; time.sleep({0 if i < 5 else 25})" for i in range(40)), chunk=40, name=name,
                    order="completed") as stream:  # fmt: skip
        next(stream)
    b = next(b for b in client.batches() if b.name == name)
    assert client.batch(b.id).wait(20).outcomes["canceled"] > 30


@pytest.mark.parametrize("order", ["input", "completed"])
def test_map_of_a_generator_that_raises(client: assay.Client, order: Literal["input", "completed"]) -> None:
    """The error comes after the results of earlier items."""
    raising = True

    def items() -> Iterator[str]:
        yield from programs(5)
        if raising:
            raise KeyError("mine")

    def until(e: type[Exception], stream: Iterable[assay.Result]) -> list[assay.Result]:
        seen: list[assay.Result] = []
        with pytest.raises(e, match="mine"):
            seen.extend(stream)
        return sorted(seen, key=lambda r: r.index)

    found = until(KeyError, client.map(items(), chunk=2, order=order))
    assert [r.stdout for r in found] == [f"{i}\n" for i in range(5)]
    key = str(uuid.uuid4())
    found = until(KeyError, client.map(items(), chunk=2, order=order, key=key))
    assert [r.stdout for r in found] == [f"{i}\n" for i in range(4)]
    raising = False
    again = sorted(client.map(items(), chunk=2, order=order, key=key), key=lambda r: r.index)
    assert [r.id for r in again[:4]] == [r.id for r in found], "what ran does not run again"
    assert [r.stdout for r in again] == [f"{i}\n" for i in range(5)]


def test_batch_and_grade_of_a_generator_that_raises(client: assay.Client) -> None:
    def items() -> Iterator[str]:
        yield "x = 1"
        raise KeyError("mine")

    name = str(uuid.uuid4())
    with pytest.raises(KeyError, match="mine"):
        client.submit_batch(items(), name=name)
    assert name not in [b.name for b in client.api.list_batches(limit=20).batches]
    with pytest.raises(KeyError, match="mine"):
        client.grade(items(), {"function": "f", "cases": [{"args": []}]})


def test_asynchronous_generator_that_raises(url: str) -> None:
    async def items() -> AsyncIterator[str]:
        yield "print(1)"
        raise KeyError("mine")

    async def main() -> None:
        async with assay.AsyncClient(url) as c:
            stream = c.map(items())
            assert (await stream.__anext__()).stdout == "1\n"
            with pytest.raises(KeyError, match="mine"):
                await stream.__anext__()

    asyncio.run(main())


def test_map_on_error(client: assay.Client) -> None:
    items = [
        "print(1)",
        {"program": {"python": {}}},
        {"program": {"python": {"code": "1"}}, "image": "none-such"},
        "1/0",
    ]
    with pytest.raises(assay.InvalidError) as e:
        list(client.map(items))
    assert "item 1" in str(e.value)
    results = list(client.map(items, on_error="return"))
    assert [r.outcome for r in results] == ["succeeded", "refused", "setup_error", "exception"]
    assert [type(r.error) for r in results] == [type(None), assay.InvalidError, assay.InfraError, type(None)]
    with pytest.raises(TypeError, match="item 1"):
        list(client.map(["1", print]))  # type: ignore[list-item]


def test_map_deadline(client: assay.Client) -> None:
    began = time.monotonic()
    with pytest.raises(assay.Timeout):
        list(client.map(["import time; time.sleep(25)"] * 3, timeout=1))
    assert time.monotonic() - began < 10


def test_map_defaults(client: assay.Client) -> None:
    items = ["while True: pass", {"program": {"python": {"code": "1"}}, "policy": {"wall": "9s"}}]
    first, second = client.map(items, policy={"wall": "300ms"}, fields=None)
    assert first.outcome == "timed_out"
    walls = {e.capability: e.requested for e in second.record.enforcement or []}
    assert walls["wall"] == "9s"


KILLED = """
import sys, assay
with assay.Client(sys.argv[1]) as c:
    for n, r in enumerate(c.map((f"print({i})" for i in range(int(sys.argv[3]))), key=sys.argv[2], chunk=100)):
        print(n, flush=True)
"""


def test_map_is_taken_up_again(client: assay.Client, url: str) -> None:
    """A process killed in the middle, and started again with the same key: every result once, nothing run twice."""
    n, key = int(os.environ.get("ASSAY_TEST_KILLED", "1500")), str(uuid.uuid4())
    before = sum(b.total for b in itertools.islice(client.batches(), 1000))
    p = subprocess.Popen([sys.executable, "-c", KILLED, url, key, str(n)], stdout=subprocess.PIPE, text=True)
    assert p.stdout
    for line in p.stdout:
        if int(line) >= n // 3:
            break
    p.send_signal(signal.SIGKILL)
    p.wait(10)
    results = list(client.map(programs(n), key=key, chunk=100))
    assert [r.stdout for r in results] == [f"{i}\n" for i in range(n)]
    assert len({r.id for r in results}) == n
    after = sum(b.total for b in itertools.islice(client.batches(), 1000))
    assert after - before == n


def test_map_progress(client: assay.Client, capsys: pytest.CaptureFixture[str]) -> None:
    told: list[tuple[int, int | None]] = []
    list(client.map(["1", "2"], progress=lambda done, total, result: told.append((done, total))))
    assert told == [(1, 2), (2, 2)]
    list(client.map(programs(3), progress="three"))
    assert "three" in capsys.readouterr().err


def test_map_asyncio(url: str) -> None:
    async def items():  # type: ignore[no-untyped-def]
        for p in programs(50):
            await asyncio.sleep(0)
            yield p

    async def main() -> list[str]:
        async with assay.AsyncClient(url) as c:
            return [r.stdout async for r in c.map(items(), chunk=10)]

    assert asyncio.run(asyncio.wait_for(main(), 60)) == [f"{i}\n" for i in range(50)]


def test_tables(client: assay.Client) -> None:
    items = [assay.job("print(1)\n[1]", labels={"k": "v"}), assay.job("1/0")]
    frame = client.map(items).to_pandas()
    assert list(frame["outcome"]) == ["succeeded", "exception"]
    assert frame["value"][0] == "[1]"
    assert frame["label.k"][0] == "v"
    table = client.map(items).to_arrow()
    assert table.column("stdout").to_pylist() == ["1\n", ""]


def test_tables_say_what_is_missing(client: assay.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        client.map(["1"]).to_pandas()


def test_futures(client: assay.Client) -> None:
    futures = [client.submit(p) for p in programs(200)]
    assert [f.result(60).stdout for f in futures] == [f"{i}\n" for i in range(200)]
    bad = client.submit({"program": {"python": {}}})
    good = client.submit("print(1)")
    assert good.result(30).stdout == "1\n"
    assert isinstance(bad.exception(30), assay.InvalidError)

    async def main() -> str:
        return (await client.submit("print(2)")).stdout

    assert asyncio.run(main()) == "2\n"


@pytest.mark.parametrize("beside", [0, 3])
def test_canceled_future_cancels_the_job(client: assay.Client, beside: int) -> None:
    label = str(uuid.uuid4())
    others = [client.submit("import time; time.sleep(1); print(1)") for _ in range(beside)]
    future = client.submit("import time; time.sleep(25)", labels={"test": label})
    end = time.monotonic() + 20
    while not client.api.list_jobs(label=f"test={label}", state="running").jobs:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert future.cancel()
    while client.api.list_jobs(label=f"test={label}").jobs[0].outcome != "canceled":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert [f.result(30).stdout for f in others] == ["1\n"] * beside


def test_executor(client: assay.Client) -> None:
    with assay.Executor(client, policy={"wall": "5s"}) as executor:
        future = executor.submit("print(x)", x=3)
        assert [r.stdout for r in executor.map("print(x)", [{"x": i} for i in range(3)])] == ["0\n", "1\n", "2\n"]
        with pytest.raises(TypeError, match="function"):
            executor.submit(print, x=1)
        with pytest.raises(TypeError, match="by name"):
            executor.submit("print(x)", 1)
    assert future.done()
    assert future.result().stdout == "3\n"
    with pytest.raises(RuntimeError, match="shutdown"):
        executor.submit("1")


def test_many_threads(client: assay.Client) -> None:
    out: dict[int, str] = {}

    def work(i: int) -> None:
        out[i] = client.run(f"print({i})").stdout if i % 2 else client.submit(f"print({i})").result(100).stdout

    threads = [threading.Thread(target=work, args=(i,)) for i in range(100)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert out == {i: f"{i}\n" for i in range(100)}
