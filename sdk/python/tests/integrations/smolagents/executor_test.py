"""AssayExecutor by itself: the code's environment, results, and errors."""

from __future__ import annotations

import base64
import concurrent.futures
import datetime
import decimal
import gc
import io
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import PIL.Image
import pytest
from smolagents import Tool, tool
from smolagents.default_tools import FinalAnswerTool
from smolagents.local_python_executor import CodeOutput, InterpreterError, PythonExecutor
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.serialization import SerializationError
from smolagents.utils import AgentError

import assay
from assay.integrations.smolagents import AssayExecutor


@pytest.fixture
def executor(client: assay.Client) -> Iterator[AssayExecutor]:
    e = AssayExecutor(client=client)
    yield e
    e.cleanup()


@tool
def double(x: int) -> int:
    """Doubles a number.

    Args:
        x: The number.
    """
    return x * 2


@tool
def here(x: dict) -> tuple:
    """Tells what it was given.

    Args:
        x: Anything.
    """
    return (x["a"], type(x["b"]).__name__, secret())


def secret() -> str:
    return "only known here"


class Prefixed(Tool):
    name = "prefixed"
    description = "Puts something before a text."
    inputs = {"text": {"type": "string", "description": "The text."}}
    output_type = "string"
    prefix = "> "

    def forward(self, text: str) -> str:
        import textwrap

        return textwrap.indent(text, self.prefix)


class Configured(Tool):
    name = "configured"
    description = "Has what only this process has."
    inputs = {"text": {"type": "string", "description": "The text."}}
    output_type = "string"

    def __init__(self, key: str) -> None:
        super().__init__()
        self.key = key

    def forward(self, text: str) -> str:
        if text == "break":
            raise ValueError("it broke")
        return f"{self.key} {text}"


def test_kind(executor: AssayExecutor) -> None:
    assert isinstance(executor, PythonExecutor)
    assert isinstance(executor, RemotePythonExecutor)


@pytest.mark.parametrize(
    ("code", "output", "logs"),
    [
        ("print('a')\n6 * 7", 42, "a\n"),
        ("x = 5", None, ""),
        ("[1, {'a': None}]", [1, {"a": None}], ""),
        ("(1, 2)", "(1, 2)", ""),
        ("'y' * 100_000", "y" * 100_000, ""),
        ("import sys; print('out'); print('err', file=sys.stderr); print('again')", None, "out\nerr\nagain\n"),
    ],
)
def test_call(executor: AssayExecutor, code: str, output: Any, logs: str) -> None:
    assert executor(code) == CodeOutput(output=output, logs=logs, is_final_answer=False)


FIGURE = """
import base64, sys, types
pyplot = types.ModuleType("matplotlib.pyplot")
class Figure:
    def savefig(self, file, format): file.write(base64.b64decode(DATA))
shown = [1]
pyplot.get_fignums, pyplot.figure, pyplot.close = lambda: list(shown), lambda n: Figure(), lambda what: shown.clear()
sys.modules["matplotlib.pyplot"] = pyplot
"""


def test_figure(executor: AssayExecutor) -> None:
    """A figure that is open is the output: here from a stand-in for matplotlib."""
    file = io.BytesIO()
    PIL.Image.new("RGB", (3, 2), "red").save(file, format="PNG")
    executor.send_variables({"DATA": base64.b64encode(file.getvalue()).decode()})
    picture = executor(FIGURE).output
    assert isinstance(picture, PIL.Image.Image)
    assert (picture.size, picture.getpixel((0, 0))) == ((3, 2), (255, 0, 0))
    assert executor("1").output == 1


def test_state(executor: AssayExecutor) -> None:
    executor("import math\ndef f(x): return math.floor(x)\nopen('a.txt', 'w').write('kept')")
    assert executor("[f(2.5), open('a.txt').read()]").output == [2, "kept"]


def test_errors(executor: AssayExecutor) -> None:
    with pytest.raises(
        AgentError, match=r"line 2, in <module>\n    y = 1 / 0\n.*\n?ZeroDivisionError: division by zero"
    ):
        executor("print('before')\ny = 1 / 0")
    assert executor.state == {"_print_outputs": "before\n"}
    with pytest.raises(AgentError, match=r"SyntaxError"):
        executor("if")
    with pytest.raises(AgentError, match=r"exit code 3"):
        executor("import sys; sys.exit(3)")
    with pytest.raises(AgentError, match=r"too large"):
        executor("#" * (33 << 20) + "\n1")
    assert executor("1").output == 1


def test_limits(client: assay.Client) -> None:
    e = AssayExecutor(client=client, policy={"wall": "1s", "imports": {"deny": ["socket"]}})
    e("x = 1")
    with pytest.raises(AgentError, match=r"limit of 1s"):
        e("while True: pass")
    with pytest.raises(AgentError, match=r"imports.*socket"):
        e("import socket")
    assert e("x").output == 1
    e.cleanup()


# Tools


def test_tools_as_source(executor: AssayExecutor) -> None:
    executor.send_tools({"double": double, "prefixed": Prefixed()})
    assert executor("[double(4), double(x=5), prefixed('a\\nb')]").output == [8, 10, "> a\n> b"]


def test_tools_on_the_host(client: assay.Client) -> None:
    e = AssayExecutor(client=client, host_tools=["here", "configured"])
    e.send_tools({"double": double, "here": here, "configured": Configured("key"), "final_answer": FinalAnswerTool()})
    for _ in range(2):
        code = "import datetime\nr = here({'a': 1, 'b': datetime.date(2026, 1, 2)})\n[type(r).__name__, *r, double(1)]"
        assert e(code).output == ["tuple", 1, "date", "only known here", 2]
        assert e("configured(text='x')").output == "key x"
        e("here = None")
        e.send_tools({"here": here, "configured": Configured("key")})
    with pytest.raises(AgentError, match=r"CallError: configured: .*ValueError: it broke"):
        e("configured('break')")
    assert e("try:\n    configured('break')\nexcept Exception as e:\n    r = str(e)\nr").output.endswith("it broke")
    with pytest.raises(AgentError, match=r"Cannot safely serialize object of type object"):
        e("here(object())")
    e.cleanup()


def test_tools_all_on_the_host(client: assay.Client) -> None:
    e = AssayExecutor(client=client, host_tools="all")
    e.send_tools({"double": double, "configured": Configured("k"), "final_answer": FinalAnswerTool()})
    assert e("final_answer([double(1), configured('a')])") == CodeOutput([2, "k a"], "", True)
    with pytest.raises(ValueError, match=r"host_tools: 'double' must be a list"):
        AssayExecutor(host_tools="double")  # type: ignore[arg-type]
    e.cleanup()


def test_tools_at_once(client: assay.Client) -> None:
    barrier = threading.Barrier(8)

    @tool
    def meet(x: int) -> int:
        """Waits for seven others.

        Args:
            x: A number.
        """
        barrier.wait(30)
        return x + 1

    e = AssayExecutor(client=client, host_tools="all")
    e.send_tools({"meet": meet})
    code = "from concurrent.futures import ThreadPoolExecutor as T\nwith T(8) as t: r = list(t.map(meet, range(8)))\nr"
    assert e(code).output == list(range(1, 9))
    e.cleanup()


def test_tools_without_source(executor: AssayExecutor) -> None:
    with pytest.raises(
        ValueError, match=r"(?s)tool 'configured' cannot be sent as source.*host_tools=\['configured'\]"
    ):
        executor.send_tools({"configured": Configured("key")})


def test_tools_whose_modules_are_missing(executor: AssayExecutor) -> None:
    @tool
    def far(url: str) -> str:
        """Reads a page.

        Args:
            url: Where it is.
        """
        import no_such_module

        return no_such_module.get(url)

    with pytest.raises(InterpreterError, match=r"Not in the image: no_such_module"):
        executor.send_tools({"far": far})


# Variables


def test_variables(executor: AssayExecutor) -> None:
    given = {
        "text": "a\0b", "several": {1, 2}, "pair": (1, b"\xff"), "day": datetime.date(2026, 1, 2),
        "exact": decimal.Decimal("0.10"), "keys": {1: "one"}, "infinite": float("inf"),
        "picture": PIL.Image.new("RGB", (2, 3)), "large": "x" * 3_000_000,
    }  # fmt: skip
    executor.send_variables(given)
    code = (
        "[text == 'a\\0b', sorted(several), pair == (1, b'\\xff'), day.year, str(exact), keys[1], infinite > 1, "
        "type(picture).__name__, len(large)]"
    )
    assert executor(code).output == [True, [1, 2], True, 2026, "0.10", "one", True, "dict", 3_000_000]
    executor.send_variables({})
    with pytest.raises(SerializationError, match=r"type object"):
        executor.send_variables({"x": object()})
    with pytest.raises(assay.TooLargeError):
        executor.send_variables({"x": "x" * (17 << 20)})
    assert executor("1").output == 1


# Answers


def answer(executor: AssayExecutor, code: str) -> Any:
    executor.send_tools({"final_answer": FinalAnswerTool()})
    out = executor(code)
    assert out.is_final_answer
    return out.output


def test_final_answer(executor: AssayExecutor) -> None:
    assert answer(executor, "print('x')\nfinal_answer('text')\nnever") == "text"
    assert answer(executor, "final_answer(answer={'a': (1, {2})})") == {"a": (1, {2})}
    assert answer(executor, "try:\n    final_answer(None)\nexcept Exception:\n    pass") is None
    assert answer(executor, "import numpy; final_answer(numpy.int64(3))") == 3
    assert answer(executor, "final_answer('é' * 1_000_000)") == "é" * 1_000_000
    assert executor("print('on')").logs == "on\n"


def test_final_answers_that_cannot_be_sent(executor: AssayExecutor) -> None:
    executor.send_tools({"final_answer": FinalAnswerTool()})
    with pytest.raises(AgentError, match=r"Cannot safely serialize object of type object"):
        executor("final_answer(object())")
    with pytest.raises(AgentError, match=r"larger than 16 MiB"):
        executor("final_answer('x' * (17 << 20))")


@pytest.mark.parametrize(
    "written",
    ["None", "3", "'pickle:gASVAAAA'", "'safe:{'", '\'safe:{"__type__": "set"}\'', "'safe:' + '[' * 100_000"],
)
def test_final_answers_that_are_forged(executor: AssayExecutor, written: str) -> None:
    """Data of the sandbox is never unpickled here, and leads at worst to an error of the agent."""
    with pytest.raises(AgentError, match=r"final answer cannot be read"):
        executor(
            f"class _AssayFinalAnswer(BaseException): pass\n_assay_final_answer = {written}\n"
            "raise _AssayFinalAnswer('pickle:x')"
        )
    assert executor("1").output == 1


# Modules


def test_additional_imports(client: assay.Client) -> None:
    e = AssayExecutor(["numpy", "numpy.*", "os.path", "*"], client=client)
    assert e("import numpy; int(numpy.sum([1, 2]))").output == 3
    e.cleanup()
    with pytest.raises(InterpreterError, match=r"Not in the image: no_such_module, pandas9\. .*packages") as error:
        AssayExecutor(["numpy", "no_such_module", "pandas9"], client=client)
    assert "image" in str(error.value)
    with pytest.raises(ValueError, match=r"additional_imports: 'numpy' must be a list"):
        AssayExecutor("numpy", client=client)


# Its end


def ended(e: AssayExecutor) -> None:
    for _ in range(2):
        with pytest.raises(assay.AssayError) as error:
            e("x")
        with pytest.raises(type(error.value)):
            _ = e.state
    e.cleanup()


def test_cleanup(client: assay.Client) -> None:
    e = AssayExecutor(client=client)
    e.cleanup()
    e = AssayExecutor(client=client)
    e("x = 1")
    assert e.session_id
    e.cleanup()
    e.cleanup()
    assert client.api.get_session(e.session_id or "").state == "ended"
    ended(e)


def test_idle(client: assay.Client) -> None:
    e = AssayExecutor(client=client, idle_timeout=1)
    e("x = 1")
    time.sleep(4)
    ended(e)


def test_memory(client: assay.Client) -> None:
    e = AssayExecutor(client=client, policy={"memory": "64Mi"})
    with pytest.raises(assay.AssayError) as error:
        e("x = [bytearray(1 << 20) for _ in range(1000)]")
    assert getattr(error.value, "outcome", "") == "out_of_memory"
    ended(e)


def test_forgotten(client: assay.Client) -> None:
    """Dropping an executor ends its session."""
    e = AssayExecutor(client=client, host_tools="all")
    e.send_tools({"double": double})
    assert e("double(2)").output == 4
    session = e.session_id or ""
    del e
    gc.collect()
    end = time.monotonic() + 30
    while client.api.get_session(session).state != "ended" and time.monotonic() < end:
        time.sleep(0.1)
    assert client.api.get_session(session).state == "ended"


def test_ctrl_c(executor: AssayExecutor) -> None:
    """It interrupts the code, and the session lives."""
    executor("x = 1")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that runs tests in the background has it ignored
    main = threading.main_thread().ident or 0
    threading.Timer(0.5, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        executor("import time\nfor _ in range(60): time.sleep(1)")
    assert executor("x").output == 1
    assert time.monotonic() - began < 30


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
        e = AssayExecutor(client=client)
        e("x = 1")
        network.cut = True
        ended(e)


def test_dead_fleet() -> None:
    with assay.Client("http://127.0.0.1:1", patience=0) as client, pytest.raises(assay.Unreachable):
        AssayExecutor(["numpy"], client=client)


def test_flood(client: assay.Client) -> None:
    e = AssayExecutor(client=client, max_print_outputs_length=1000)
    out = e("print('first')\nfor _ in range(20): print('x' * (1 << 20))\nprint('last')")
    assert out.logs.startswith("first\n")
    assert out.logs.endswith("last\n")
    assert "truncated to stay below 1000 characters" in out.logs
    assert len(out.logs) < 1200
    with pytest.raises(AgentError, match=r"ValueError: y+"):
        e("raise ValueError('y' * (20 << 20))")
    assert e("1").output == 1
    e.cleanup()


def test_many_from_threads(client: assay.Client) -> None:
    """Twenty at once, each with a tool of its own."""

    def one(n: int) -> Any:
        e = AssayExecutor(client=client, policy={"memory": "64Mi"}, host_tools="all")
        e.send_tools({"configured": Configured(str(n)), "final_answer": FinalAnswerTool()})
        try:
            e("x = configured('a')")
            return e("final_answer((x, configured('b')))").output
        finally:
            e.cleanup()

    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        assert list(pool.map(one, range(20))) == [(f"{n} a", f"{n} b") for n in range(20)]
