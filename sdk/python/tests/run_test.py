"""One program: results, and refusals."""

from __future__ import annotations

import asyncio
import pickle
import time
import uuid

import pytest

import assay


def test_code(client: assay.Client) -> None:
    r = client.run("print(x + 1)\nx * 2", variables={"x": 20})
    assert (r.outcome, r.stdout, r.value, r.ok) == ("succeeded", "21\n", 40, True)
    assert r.check() is r
    assert r.record.usage.wall_ms > 0
    assert {e.capability for e in r.record.enforcement or []} >= {"wall", "memory"}
    again = pickle.loads(pickle.dumps(r))
    assert again.raw == r.raw


def test_script_with_stdin(client: assay.Client) -> None:
    assert client.run("import sys; print(sys.stdin.read().upper())", stdin="a\nb").check().stdout == "A\nB\n"


def test_code_in_a_language(client: assay.Client) -> None:
    source = "#include <iostream>\nint main() { int n; std::cin >> n; std::cout << 2 * n; return n % 4; }"
    r = client.run(source, language="C++", stdin="21")
    assert (r.outcome, r.exit_code, r.stdout) == ("failed", 1, "42")
    assert client.submit(source, language="cpp", stdin="4").result(60).check().stdout == "8"
    r = client.run("int main() { return x; }", language="c")
    assert (r.outcome, r.error) == ("compile_error", None)
    assert r.record.compiled is not None
    assert "x" in r.record.compiled.stderr.text
    with pytest.raises(assay.ProgramError, match="compile"):
        r.check()
    with pytest.raises(assay.InvalidError, match="cobol"):
        client.run("x", language="cobol")


def test_command_with_files(client: assay.Client) -> None:
    files = {"/workspace/a.txt": "text", "/workspace/b.bin": b"\x00\xff"}
    r = client.run(["sh", "-c", "cat a.txt; wc -c < b.bin"], files=files, name="n", labels={"k": "v"})
    assert (r.stdout, r.name, r.labels) == ("text2\n", "n", {"k": "v"})


def test_whole_job(client: assay.Client) -> None:
    spec = {"program": {"python": {"code": "print(1)"}}, "policy": {"wall": "5s"}}
    assert client.run(spec, labels={"a": "b"}).check().labels == {"a": "b"}
    typed = assay.models.JobSpec.from_dict(spec)
    assert client.run(typed).check().stdout == "1\n"


def test_failure_is_data(client: assay.Client) -> None:
    r = client.run("{}['k']")
    assert r.outcome == "exception"
    assert r.error is None
    assert r.exception is not None
    assert (r.exception.type, r.exception.line) == ("KeyError", 1)
    with pytest.raises(assay.ProgramError, match="KeyError") as e:
        r.check()
    assert e.value.result is r
    assert not isinstance(e.value, assay.InfraError)
    assert client.run("while True: pass", policy={"wall": "200ms"}).outcome == "timed_out"
    assert client.run(["sh", "-c", "exit 3"]).exit_code == 3


def test_infrastructure_raises(client: assay.Client) -> None:
    with pytest.raises(assay.InfraError) as e:
        client.run("print(1)", image="there-is-no-such-image")
    assert e.value.result.outcome == "setup_error"
    assert client.submit("print(1)", image="there-is-no-such-image").exception(60) is not None


def test_refused_request_names_the_field(client: assay.Client) -> None:
    with pytest.raises(assay.InvalidError, match="memory") as e:
        client.run("print(1)", policy={"memory": "lots"})
    assert (e.value.status, e.value.code, e.value.field) == (422, "invalid", "policy.memory")
    assert pickle.loads(pickle.dumps(e.value)).errors == e.value.errors


@pytest.mark.parametrize(
    ("program", "options", "match"),
    [
        (print, {}, "function"),
        (7, {}, "program is code"),
        (b"print(1)", {}, "program is code"),
        ([], {}, "one str or more"),
        (["a"], {"language": "c"}, "of code"),
        ("1", {"language": "c", "variables": {}}, "script"),
        (["a", 1], {}, "word 1 is int"),
        ({"code": "x"}, {}, "needs a program"),
        ({"program": {"python": {"code": "1"}}}, {"variables": {}}, "whole job"),
        ("1", {"stdin": "", "variables": {}}, "script"),
        ("1", {"files": {"a.txt": ""}}, "absolute"),
        ("1", {"variables": {"x": [float]}}, r'variables\["x"\]\[0\]: type cannot be sent'),
        ("1", {"variables": {"x": object()}}, r'variables\["x"\]: object cannot be sent'),
        ("1", {"timeout": 0}, "timeout"),
    ],
)
def test_bad_arguments(client: assay.Client, program: object, options: dict[str, object], match: str) -> None:
    with pytest.raises((TypeError, ValueError), match=match):
        client.run(program, **options)  # type: ignore[arg-type]


def test_deadline_cancels_the_job(client: assay.Client) -> None:
    began, label = time.monotonic(), str(uuid.uuid4())
    with pytest.raises(assay.Timeout, match="within 1"):
        client.run("import time; time.sleep(25)", labels={"test": label}, timeout=1)
    assert time.monotonic() - began < 8
    eventually(lambda: client.api.list_jobs(label=f"test={label}", outcome="canceled").jobs)


def test_asyncio(url: str) -> None:
    async def main() -> list[str]:
        async with assay.AsyncClient(url) as c:
            one = await c.run("print(1)")
            several = await asyncio.gather(*(c.submit(f"print({i})") for i in range(2, 5)))
            return [r.stdout for r in (one, *several)]

    assert asyncio.run(main()) == ["1\n", "2\n", "3\n", "4\n"]


def test_one_client_in_several_loops(url: str) -> None:
    c = assay.AsyncClient(url)

    async def once() -> str:
        return (await c.run("print(1)")).stdout + (await c.submit("print(2)")).stdout

    for _ in range(3):
        assert asyncio.run(once()) == "1\n2\n"
    assert len(c._transport._pools) == 1, "those of loops that are closed are forgotten"


def test_canceled_task_cancels_the_job(url: str) -> None:
    label = str(uuid.uuid4())

    async def main() -> None:
        async with assay.AsyncClient(url) as c:
            task = asyncio.ensure_future(c.run("import time; time.sleep(25)", labels={"test": label}))
            while not (await c.api.list_jobs(label=f"test={label}", state="running")).jobs:
                await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, 10)
            while (await c.api.list_jobs(label=f"test={label}")).jobs[0].outcome != "canceled":
                await asyncio.sleep(0.05)

    asyncio.run(asyncio.wait_for(main(), 30))


def test_package_functions(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_URL", url)
    monkeypatch.setattr("assay._default._default", type(assay._default._default)())
    assert assay.run("print(1)").stdout == "1\n"
    assert [r.stdout for r in assay.map(["print(1)"])] == ["1\n"]
    assert assay.submit("print(2)").result(30).stdout == "2\n"
    assert assay.grade(["x = 1"], {"function": "len", "cases": [{"args": [[1]], "expected": 1}]}) in ([1.0], [0.0])


def eventually(look: object, seconds: float = 15.0) -> object:
    """The first true result of look."""
    end = time.monotonic() + seconds
    while not (found := look()):  # type: ignore[operator]
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.05)
    return found
