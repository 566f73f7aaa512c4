"""An interpreter of DSPy on a fleet: code of RLM, ProgramOfThought, CodeAct and Flex runs in a session of its own.

    import dspy
    from assay.integrations.dspy import AssayInterpreter

    dspy.configure(lm=dspy.LM("openai/gpt-4o-mini"), interpreter_factory=AssayInterpreter)
    dspy.RLM("context, query -> answer")(context=book, query="Who did it?")

AssayInterpreter.factory(policy={"memory": "1Gi"}) returns one with options. Tools, including llm_query and
sub-agents, stay in this process. Code in the sandbox may call several of them at once.
"""

from __future__ import annotations

import keyword
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from dspy.primitives.code_interpreter import CodeExecutionError, CodeInterpreterError, FinalOutput
from dspy.utils.callback import BaseCallback, with_callbacks

from assay import AssayError, Client, Execution, InvalidError
from assay.models import Policy

from ._dspy_values import called, plain, submit_code, submitted
from ._inputs import Inputs
from ._interpreter import Interpreter, SessionEnded, failure, printed

__all__ = ["AssayInterpreter"]

#: Reserved names, not allowed for a tool or a variable.
RESERVED = frozenset({"SUBMIT", "__builtins__"})

INSTRUCTIONS = (
    "Code runs as ordinary Python (CPython) in a sandbox on another machine. Variables, imports and functions persist "
    "between executions, as do files in the working directory. Tools and SUBMIT are global functions. Tools may be "
    "called from several threads at once, for example by concurrent.futures.ThreadPoolExecutor. What a tool takes and "
    "returns is JSON. Without permission there is no network."
)


class AssayInterpreter:
    """A session of a fleet, as dspy.CodeInterpreter. It starts at its first use, and ends by shutdown.

    Args:
        tools: functions of this process that code may call by name, also async ones. They are called with keywords:
            positional arguments get the names of the function's parameters.
        output_fields: of SUBMIT: dicts with "name" and, for its annotation, "type". None: SUBMIT(output).
        client: the client to use; else the default client of ASSAY_URL and ASSAY_TOKEN.
        policy: permissions and limits of the code. Without a wall in it, each execution has 10 minutes, since the
            time of tools counts.
        image, name, labels, pool: of the session, as everywhere.
        idle_timeout: between two executions, in seconds or as a duration; default 1h.
        lease: seconds after which the session ends if this process has died.
        callbacks: of DSPy, for this interpreter.

    Only one execution at a time: meanwhile neither another thread nor a tool may execute code in it.
    """

    execution_instructions = INSTRUCTIONS

    def __init__(
        self,
        tools: Mapping[str, Callable[..., Any]] | None = None,
        output_fields: Iterable[Mapping[str, Any]] | None = None,
        *,
        client: Client | None = None,
        policy: Mapping[str, Any] | Policy | str | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        pool: str | None = None,
        idle_timeout: float | str | timedelta | None = None,
        lease: float | str | timedelta | None = 60.0,
        callbacks: Iterable[BaseCallback] | None = None,
    ) -> None:
        self.tools: dict[str, Callable[..., Any]] = dict(tools or {})
        self.output_fields = None if output_fields is None else [dict(field) for field in output_fields]
        self.callbacks = list(callbacks or ())
        self._interpreter = Interpreter(
            client, policy, image=image, name=name, labels=labels, pool=pool, idle_timeout=idle_timeout, lease=lease
        )
        self._inputs = Inputs(self._interpreter)
        self._submit: str | None = None  # the code in the session that defines SUBMIT
        self._busy = threading.Lock()
        self._interrupted: BaseException | None = None

    @classmethod
    def factory(cls, *, execution_instructions: str = INSTRUCTIONS, **options: Any) -> Callable[[], AssayInterpreter]:
        """A factory of interpreters for each run, for interpreter_factory. It has the options of the class.

        Args:
            execution_instructions: instructions for the model about the environment of its code; list here the
                packages of an image.
        """
        return _Factory(cls, execution_instructions, options)

    @property
    def session_id(self) -> str | None:
        """Id of the session on the fleet, once it has started."""
        return self._interpreter.id

    @with_callbacks
    def start(self) -> None:
        """Starts the session, if it is not started yet.

        Raises:
            CodeInterpreterError: the fleet refuses it or cannot be reached, or it has ended.
        """
        with _ours():
            self._start()

    @with_callbacks
    def execute(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        """Sets variables, and executes code in the state of earlier executions.

        Returns:
            FinalOutput if the code called SUBMIT; else the value of its last expression, if that is not None, as JSON
            or its repr; else its printed output, of either stream; else None.

        Raises:
            CodeExecutionError: of the code: an exception, or a limit of an execution. The session continues.
            SyntaxError: it is not Python.
            CodeInterpreterError: names or values cannot be sent; or the session has ended, for good.
        """
        if not isinstance(code, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise CodeInterpreterError(f"code: must be a str, not {type(code).__name__}")
        if not self._busy.acquire(blocking=False):
            raise CodeInterpreterError("AssayInterpreter already executes: a tool of it cannot, nor another thread.")
        try:
            self._interrupted = None
            given = self._checked(variables)
            with _ours():
                self._prepare()
                execution = self._run(code, self._inputs.bind(given))
                return self._outcome(code, execution)
        finally:
            self._busy.release()

    @with_callbacks
    def invoke_tool(self, tool_name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Calls a tool as code in the sandbox does."""
        if tool_name not in self.tools:
            raise CodeInterpreterError(f"Unknown tool: {tool_name}")
        return called(self.tools[tool_name], args, kwargs)

    @with_callbacks
    def shutdown(self) -> None:
        """Ends the session. It raises nothing: if the fleet cannot be reached, the session ends by its lease."""
        self._interpreter.close()

    def __enter__(self) -> AssayInterpreter:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def __call__(self, code: str, variables: dict[str, Any] | None = None) -> Any:
        return self.execute(code, variables)

    def _start(self) -> None:
        self._provide()
        self._interpreter.start()

    def _provide(self) -> None:
        """Registers new tools. Removed tools stay registered, and report that they are unknown."""
        for tool in self.tools.keys() - self._interpreter.functions:
            _check_name("tool", tool)
            self._interpreter.provide(tool, self._answering(tool))

    def _answering(self, tool: str) -> Callable[..., Any]:
        found = weakref.ref(self)

        def answer(*args: Any, **kwargs: Any) -> Any:
            interpreter = found()
            if interpreter is None:
                raise RuntimeError("this interpreter is closed")
            return interpreter._answer(tool, args, kwargs)

        return answer

    def _answer(self, tool: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return plain(self.invoke_tool(tool, list(args), kwargs))
        except Exception:
            raise
        except BaseException as e:  # such as a cancellation: for the caller of execute, not for the code
            self._interrupted = e
            raise RuntimeError(f"{type(e).__name__}: {e}") from e

    def _checked(self, variables: Any) -> dict[str, Any]:
        if variables is None:
            return {}
        if not isinstance(variables, Mapping):
            raise CodeInterpreterError("variables: must be a dict of names and values")
        for name in variables:
            _check_name("variable", name)
            if name in self.tools:
                raise CodeInterpreterError(f"Invalid variable name: {name!r} is a tool")
        try:
            return {name: plain(value, strict=name) for name, value in variables.items()}
        except RecursionError:
            raise CodeInterpreterError("variables: a value contains itself, or is nested too deeply") from None

    def _prepare(self) -> None:
        self._start()
        code = submit_code(self.output_fields)
        if code != self._submit:
            self._interpreter.run(code).check()
            self._submit = code

    def _run(self, code: str, variables: Mapping[str, Any]) -> Execution:
        try:
            return self._interpreter.run(code, variables)
        except InvalidError as e:  # such as code that is too long
            raise CodeExecutionError(str(e)) from e
        finally:
            if self._interrupted is not None:
                raise self._interrupted

    def _outcome(self, code: str, execution: Execution) -> Any:
        if execution.ok:
            value = self._interpreter.value(execution)
            return value if value is not None else printed(execution).rstrip("\n") or None
        error = execution.error
        if error is None or execution.outcome != "exception":
            raise CodeExecutionError(failure(execution))
        if error.type == "_AssaySubmitted":
            return FinalOutput(submitted(self._interpreter))
        where = _where(code, error.line or 0)
        if error.type in ("SyntaxError", "IndentationError", "TabError"):
            raise SyntaxError(f"{error.message}{where}")
        raise CodeExecutionError(f"{error.type}: {error.message}{where}")


class _Factory:
    """Makes interpreters with options. DSPy copies modules, and a client cannot be copied."""

    def __init__(self, cls: type[AssayInterpreter], execution_instructions: str, options: dict[str, Any]) -> None:
        self._cls, self._options = cls, options
        self.execution_instructions = execution_instructions

    def __call__(self) -> AssayInterpreter:
        return self._cls(**self._options)

    def __deepcopy__(self, _: Any) -> _Factory:
        return self


@contextmanager
def _ours() -> Generator[None]:
    """Turns errors of the fleet and the session into DSPy's."""
    try:
        yield
    except SessionEnded as e:
        raise CodeInterpreterError(
            f"The session has ended ({e.outcome}): {e}. Its state is lost; create a new interpreter."
        ) from e
    except (AssayError, ValueError, TypeError) as e:  # the client itself refuses some values
        raise CodeInterpreterError(str(e)) from e


def _check_name(what: str, name: Any) -> None:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name in RESERVED:
        raise CodeInterpreterError(f"Invalid {what} name: {name!r} is no identifier, or reserved")
    if not name.isascii() or name.startswith("_assay_"):
        raise CodeInterpreterError(f"Invalid {what} name: {name!r} must be ASCII, and not begin with _assay_")


def _where(code: str, line: int) -> str:
    """The line of the code, for a model that should correct it."""
    lines = code.splitlines()
    return f" (line {line}: {lines[line - 1].strip()[:200]})" if 0 < line <= len(lines) else ""
