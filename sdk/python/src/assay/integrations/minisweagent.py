"""mini-swe-agent: an environment whose commands run in a sandbox of a fleet.

    agent = DefaultAgent(model, AssayEnvironment(image="python"), **config)

or, in a configuration file of its command line:

    environment:
      environment_class: assay.integrations.minisweagent.AssayEnvironment
      image: python
"""

from __future__ import annotations

import logging
import os
import subprocess
import weakref
from collections.abc import Mapping
from typing import Any, TypeVar

from minisweagent.exceptions import Submitted
from minisweagent.utils.serialize import recursive_merge
from pydantic import BaseModel

from .._default import default_client
from .._processes import Completed
from .._sync._client import Client

__all__ = ["AssayEnvironment", "AssayEnvironmentConfig"]

E = TypeVar("E", bound="AssayEnvironment")

SUBMIT = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""First line of the output with which an agent ends its run; the rest is its submission."""

UNAME = 'for f in s n r v m; do uname -"$f"; done'


class AssayEnvironmentConfig(BaseModel):
    """Configuration of a sandbox of a fleet."""

    image: str | None = None
    """File system of commands, with a python3 and the interpreter; default "python"."""
    cwd: str = ""
    """Working directory of commands; default /workspace."""
    env: dict[str, str] = {}
    """Variables of commands."""
    forward_env: list[str] = []
    """Names of local variables that commands get, too, if they are set; env takes precedence."""
    timeout: int = 30
    """Seconds that a command may take."""
    interpreter: list[str] = ["bash", "-lc"]
    """Interpreter of commands, to which they are appended."""
    policy: dict[str, Any] | str | None = None
    """Permissions and limits of commands; see docs/policy.md."""
    name: str | None = None
    labels: dict[str, str] = {}
    url: str | None = None
    """Address of the fleet; default as of assay.run. The token is ASSAY_TOKEN."""
    lease: float | None = 60.0
    """Seconds for which the sandbox continues after the death of this process."""
    output_limit: int = 8 << 20
    """Most bytes of a command's output; a command that writes more is killed."""


class AssayEnvironment:
    """Runs the commands of an agent in one sandbox, in which files persist between commands.

    A command that fails, takes too long or cannot be started is an output, as in mini-swe-agent's own environments.
    Failures of the fleet raise assay's errors, which end the run: an agent cannot fix them.

    Args:
        config_class: of the config.
        logger: of its own.
        client: the client, instead of the config's url.
        kwargs: see AssayEnvironmentConfig.
    """

    def __init__(
        self,
        *,
        config_class: type[AssayEnvironmentConfig] = AssayEnvironmentConfig,
        logger: logging.Logger | None = None,
        client: Client | None = None,
        **kwargs: Any,
    ) -> None:
        self.logger = logger or logging.getLogger("minisweagent.environment")
        self.config = config_class(**kwargs)
        c = self.config
        client = client or (Client(c.url) if c.url else default_client())
        forwarded = {name: os.environ[name] for name in c.forward_env if name in os.environ}
        self._sandbox = client.sandbox(
            policy=c.policy, image=c.image, name=c.name, labels=c.labels, lease=c.lease, cwd=c.cwd or None,
            env={**forwarded, **c.env},
        )  # fmt: skip
        self.cleanup = weakref.finalize(self, self._sandbox.close)
        """Ends the sandbox, as the end of this object and of the process do. Does nothing the second time."""
        self._sandbox.start()
        lines = self._sandbox.exec(["sh", "-c", UNAME], timeout=60).stdout.decode("utf-8", "replace").splitlines()
        self._system = dict(zip(("system", "node", "release", "version", "machine"), lines))
        self.logger.info("Started sandbox %s", self._sandbox.id)

    def execute(self, action: Mapping[str, Any], cwd: str = "", *, timeout: int | None = None) -> dict[str, Any]:
        """Runs a command.

        Args:
            action: {"command": …}.
            cwd: working directory instead of the config's.
            timeout: seconds, instead of the config's.

        Returns:
            dict: output (both streams, in order), returncode, exception_info: why the command has no returncode of
            its own, which is then -1; "" otherwise.

        Raises:
            Submitted: it ended with 0, and its output begins with the submitting line.
            AssayError: the fleet failed, or the sandbox has ended.
        """
        command, seconds = str(action.get("command", "")), timeout or self.config.timeout
        argv = ["sh", "-c", 'exec "$@" 2>&1', "sh", *self.config.interpreter, command]
        try:
            done = self._sandbox.exec(argv, cwd=cwd or None, timeout=seconds, limit=self.config.output_limit)
        except (OSError, ValueError) as e:
            if not _of_command(e):
                raise
            return _failed("", e)
        output = self._output(done, command, seconds)
        _check_finished(output)
        return output

    def _output(self, done: Completed, command: str, seconds: float) -> dict[str, Any]:
        text = done.stdout.decode("utf-8", "replace")
        if done.timed_out:
            return _failed(text, subprocess.TimeoutExpired(command, seconds))
        if done.truncated:
            return _failed(text, OverflowError(f"it was killed: it wrote more than {self.config.output_limit} bytes"))
        return {"output": text, "returncode": done.exit_code, "exception_info": ""}

    def get_template_vars(self, **kwargs: Any) -> dict[str, Any]:
        """The config, uname of the sandbox, and the given variables."""
        return recursive_merge(self.config.model_dump(), self._system, kwargs)

    def serialize(self) -> dict[str, Any]:
        return {
            "info": {
                "config": {
                    "environment": self.config.model_dump(mode="json"),
                    "environment_type": f"{self.__class__.__module__}.{self.__class__.__name__}",
                }
            }
        }

    def __enter__(self: E) -> E:
        return self

    def __exit__(self, *_: object) -> None:
        self.cleanup()


def _of_command(error: OSError | ValueError) -> bool:
    """Whether an error is about the command. The fleet's errors about connections and time are OSErrors, too."""
    return not isinstance(error, (ConnectionError, TimeoutError))


def _failed(output: str, e: Exception) -> dict[str, Any]:
    return {
        "output": output,
        "returncode": -1,
        "exception_info": f"An error occurred while executing the command: {e}",
        "extra": {"exception_type": type(e).__name__, "exception": str(e)},
    }


def _check_finished(output: Mapping[str, Any]) -> None:
    """Raises Submitted if the output submits the task."""
    first, _, submission = output["output"].lstrip().partition("\n")
    if first.strip() == SUBMIT and output["returncode"] == 0:
        extra = {"exit_status": "Submitted", "submission": submission}
        raise Submitted({"role": "exit", "content": submission, "extra": extra})
