"""An executor of smolagents on a fleet: code of a CodeAgent runs in a session of its own.

    from assay.integrations.smolagents import AssayExecutor

    with CodeAgent(tools=[search], model=model, executor=AssayExecutor(host_tools=["search"])) as agent:
        agent.run("Who wrote it?")

Tools are sent as source, as to every remote executor of the package. Those in host_tools, and managed agents, stay
in this process, and code in the sandbox calls them.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Literal

from smolagents.local_python_executor import DEFAULT_MAX_LEN_OUTPUT, CodeOutput, InterpreterError
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import RemotePythonExecutor
from smolagents.serialization import SafeSerializer
from smolagents.tools import Tool, get_tools_definition_code
from smolagents.utils import AgentError, truncate_content

from assay import AssayError, Client, Execution, InvalidError, TooLargeError
from assay.models import Policy

from . import _smolagents_code as prepared
from ._interpreter import Interpreter, SessionEnded, failure, printed

__all__ = ["AssayExecutor", "SessionEnded"]

#: Serializes the creation of tools' source: ast.parse of CPython before 3.11.8 fails in several threads
# (gh-106905).
_parsing = threading.Lock()


class AssayExecutor(RemotePythonExecutor):
    """A session of a fleet, as a PythonExecutor: CodeAgent(executor=AssayExecutor()). It ends by cleanup.

    Args:
        additional_imports: modules, or distributions, that the code needs. They come from the image, or from
            policy["packages"], which the fleet installs; the session installs nothing.
        logger: of smolagents; by default it prints errors.
        client: the client to use; else the default client of ASSAY_URL and ASSAY_TOKEN.
        policy: permissions and limits of the code. Without a wall in it, each step has 10 minutes, since the time of
            tools on the host counts.
        image, name, labels, pool: of the session, as everywhere.
        idle_timeout: between two steps, in seconds or as a duration; default 1h.
        lease: seconds after which the session ends if this process has died.
        host_tools: names of tools that stay in this process, or "all" except final_answer: tools with secrets, with a
            need for a network that the code has not, or with source that cannot be sent. Managed agents always stay.
        max_print_outputs_length: characters of a step's printed output that the agent sees, the beginning and the end;
            default as in the package's own LocalPythonExecutor.

    Values cross in the format of the package's SafeSerializer, which is JSON. Pickles are never read here: they
    would let code of the sandbox run here.

    Raises:
        InterpreterError: additional_imports are missing.
        AssayError: no session is available. Once it has ended, every call raises SessionEnded.
    """

    def __init__(
        self,
        additional_imports: Iterable[str] = (),
        logger: AgentLogger | None = None,
        *,
        client: Client | None = None,
        policy: Mapping[str, Any] | Policy | str | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        pool: str | None = None,
        idle_timeout: float | str | timedelta | None = None,
        lease: float | str | timedelta | None = 60.0,
        host_tools: Collection[str] | Literal["all"] = (),
        max_print_outputs_length: int = DEFAULT_MAX_LEN_OUTPUT,
    ) -> None:
        if isinstance(host_tools, str) and host_tools != "all":
            raise ValueError(f'host_tools: {host_tools!r} must be a list of names, or "all"')
        if isinstance(additional_imports, str):
            raise ValueError(f"additional_imports: {additional_imports!r} must be a list of names")
        super().__init__(list(additional_imports), logger or AgentLogger(level=LogLevel.ERROR))
        self._host_tools = host_tools
        self._most = max_print_outputs_length
        self._interpreter = Interpreter(
            client, policy, image=image, name=name, labels=labels, pool=pool, idle_timeout=idle_timeout, lease=lease
        )
        self._host: dict[str, Callable[..., Any]] = {}
        self._logs = ""
        self._failure: AssayError | None = None
        try:
            self.installed_packages = self.install_packages(self.additional_imports)
        except BaseException:
            self.cleanup()
            raise

    @property
    def session_id(self) -> str | None:
        """Id of the session on the fleet, once it has started."""
        return self._interpreter.id

    @property
    def state(self) -> dict[str, Any]:
        """The printed output of a failed step: a CodeAgent reads it, and shows it to the model.

        Raises:
            AssayError: the step failed for a reason outside the code. Raised here, it ends the run of the agent. The
                agent blames the model for any exception of a step, and would go on to a made-up answer.
        """
        if self._failure is not None:
            raise self._failure
        return {"_print_outputs": self._logs}

    def run_code_raise_errors(self, code: str) -> CodeOutput:
        """Executes code in the state of earlier steps.

        Returns:
            CodeOutput. output: the argument of final_answer; else the value of the last expression, as JSON or its
            repr, or a picture if the step drew one. logs: the printed output, of either stream.

        Raises:
            AgentError: of the code: an exception, a limit of a step, a final answer that cannot be sent.
            AssayError: the session has ended, or could not be reached.
        """
        self._logs, self._failure = "", None
        try:
            return self._output(self._run(code))
        except AssayError as e:
            self._failure = e
            raise

    def send_tools(self, tools: dict[str, Tool]) -> None:
        """Makes tools available to the code: as source, or as functions that are answered here.

        Raises:
            ValueError: a tool's source cannot be sent.
            InterpreterError: a module is missing that its source imports.
        """
        here = {name: tool for name, tool in tools.items() if self._stays(name, tool)}
        sent = {name: tool for name, tool in tools.items() if name not in here}
        with _parsing:
            needed = {module for name, tool in sent.items() for module in _needed(name, tool)}
            source = get_tools_definition_code(sent)
        self.install_packages(sorted(needed - set(self.installed_packages)))
        self.installed_packages = sorted(needed.union(self.installed_packages))
        self._setup(prepared.SERIALIZER, {"_assay_source": prepared.serializer()})
        self._setup(source)
        self._answer(here)
        if "final_answer" in tools:  # the package's own way needs PIL in the image, and changes the tool
            self._setup("final_answer = _assay_ends(final_answer)")

    def send_variables(self, variables: dict[str, Any]) -> None:
        """Sets variables, in the format of SafeSerializer.

        Raises:
            SerializationError: a value is of a type that it does not support.
            TooLargeError: together they are above 16 MiB.
        """
        if variables:
            given = SafeSerializer.dumps(variables)
            self._interpreter.set("_assay_given", given)
            self._setup(SafeSerializer.get_deserializer_code(False) + prepared.VARIABLES)

    def install_packages(self, additional_imports: list[str]) -> list[str]:
        """Checks that modules are installed.

        Raises:
            InterpreterError: some are missing; the text names them, and the remedy.
        """
        asked = [name.removesuffix(".*") for name in additional_imports if name != "*"]
        if asked:
            found = self._setup(prepared.MISSING, {"_assay_asked": asked})
            if found.value:
                raise InterpreterError(
                    f"Not in the image: {', '.join(found.value)}. A session installs nothing: have the fleet do it, by "
                    'policy={"packages": ["name==version"]}, or choose an image that has them.'
                )
        return list(additional_imports)

    def cleanup(self) -> None:
        """Ends the session. It raises nothing: if the fleet cannot be reached, the session ends by its lease."""
        self._interpreter.close()

    def _run(self, code: str) -> Execution:
        try:
            execution = self._interpreter.run(code)
        except InvalidError as e:  # such as code that is too long
            raise AgentError(str(e), self.logger) from e
        if self._failure is not None:  # of a host tool, whose caller got it as an error
            raise self._failure
        self._logs = truncate_content(printed(execution), self._most)
        return execution

    def _output(self, execution: Execution) -> CodeOutput:
        error = execution.error
        if execution.ok:
            output = self._interpreter.value(execution) if execution.raw.get("value") else _picture(execution)
            return CodeOutput(output=output, logs=self._logs, is_final_answer=False)
        if error is None or execution.outcome != "exception":
            raise AgentError(failure(execution), self.logger)
        if error.type == "_AssayFinalAnswer":
            return CodeOutput(output=self._final_answer(), logs=self._logs, is_final_answer=True)
        text = (error.traceback or "").rstrip() or f"{error.type}: {error.message}"
        raise AgentError(truncate_content(text, self._most), self.logger)

    def _final_answer(self) -> Any:
        try:
            return SafeSerializer.loads(self._interpreter.get("_assay_final_answer"))
        except TooLargeError as e:
            raise AgentError("The final answer is larger than 16 MiB.", self.logger) from e
        except AssayError:
            raise
        except Exception as e:  # code in the sandbox may have written anything there
            raise AgentError(f"The final answer cannot be read: {type(e).__name__}: {e}", self.logger) from e

    def _stays(self, name: str, tool: Any) -> bool:
        if not isinstance(tool, Tool):
            return True
        return name in self._host_tools if self._host_tools != "all" else name != "final_answer"

    def _answer(self, tools: Mapping[str, Callable[..., Any]]) -> None:
        """Answers tools here, under their own names."""
        if not tools:
            return
        new = tools.keys() - self._interpreter.functions
        self._host.update(tools)
        for name in new:
            self._interpreter.provide(name, self._answering(name))
        lines = [f"_assay_calls[{name!r}] = {name}" for name in new]
        lines += [f"{name} = _assay_host_tool({name!r})" for name in tools]
        self._setup("\n".join(lines))

    def _answering(self, name: str) -> Callable[[str], str]:
        found = weakref.ref(self)

        def answer(payload: str) -> str:
            executor = found()
            if executor is None:
                raise RuntimeError("this executor is closed")
            args, kwargs = SafeSerializer.loads(payload)
            try:
                return SafeSerializer.dumps(executor._host[name](*args, **kwargs))
            except AssayError as e:  # code cannot handle a failing fleet
                executor._failure = e
                raise

        return answer

    def _setup(self, code: str, variables: Mapping[str, Any] | None = None) -> Execution:
        execution = self._interpreter.run(code, variables)
        if not execution.ok:
            raise InterpreterError(f"The session cannot be made ready: {failure(execution)}")
        return execution


def _needed(name: str, tool: Tool) -> set[str]:
    """Modules that a tool's source imports. ValueError if the source cannot be sent."""
    try:
        get_tools_definition_code({name: tool})
        return set(tool.to_dict()["requirements"]) - {"smolagents"}
    except Exception as e:
        raise ValueError(
            f"tool {name!r} cannot be sent as source: {e}. AssayExecutor(host_tools=[{name!r}]) answers it here."
        ) from e


def _picture(execution: Execution) -> Any:
    if not execution.images:
        return None
    from io import BytesIO

    import PIL.Image

    return PIL.Image.open(BytesIO(execution.images[-1]))
