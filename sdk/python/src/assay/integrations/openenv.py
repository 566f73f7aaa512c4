"""OpenEnv: an environment whose actions are code, which runs in a session of a fleet.

    uvicorn --factory assay.integrations.openenv:app

serves it by OpenEnv's own server; AssayEnv is its client. Each connection has an environment of its own. Each
episode has a session of its own, which ends with it.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from openenv.core.rubrics import Rubric
from pydantic import Field

from .. import __version__
from .._default import default_client
from .._ended import json_or_repr
from .._errors import InfraError
from .._execution import Execution
from .._jobs import PolicyLike
from .._sync._client import Client
from .._sync._session import Session


class CodeAction(Action):
    """Code that is executed in the state of the episode's previous code."""

    code: str = Field(min_length=1, description="Python code, or a script for the shell")
    shell: bool = Field(default=False, description="Whether it is a script for bash")
    timeout: float | None = Field(default=None, gt=0, description="Seconds that it may take, at most the policy's")


class CodeObservation(Observation):
    """The result of an action."""

    stdout: str = Field(default="", description="Standard output")
    stderr: str = Field(default="", description="Standard error, with the traceback of an exception")
    exit_code: int = Field(default=0, description="Of a script; of code 0, or 1 if it failed")
    outcome: str = Field(default="succeeded", description="How it ended: succeeded, failed, exception, timed_out, …")
    message: str = Field(default="", description="The same in a sentence, if there is something to say")
    value: Any = Field(default=None, description="Value of the last expression, if JSON has all of it, else its repr")
    error: dict[str, Any] | None = Field(default=None, description="Exception: type, message, line, traceback")
    variables: dict[str, str] = Field(default_factory=dict[str, str], description="New and changed ones, as they look")
    duration: float = Field(default=0.0, description="Seconds that it took")


class CodeState(State):
    """The state of an episode."""

    session_id: str | None = Field(default=None, description="Of the session, None before the first reset")
    last_outcome: str | None = Field(default=None, description="Of the last step")
    last_exit_code: int = Field(default=0, description="Of the last step")


class AssayEnvironment(Environment[CodeAction, CodeObservation, CodeState]):
    """An environment of sessions. Failures of the fleet are raised: they are errors for the client, and have no
    reward.

    Args:
        client: the client to use; else the default client of ASSAY_URL and ASSAY_TOKEN.
        policy, image, name, labels: of the sessions.
        setup: code that is executed at the beginning of each episode.
        max_steps: steps after which an episode is done; None: any number.
        transform, rubric: OpenEnv's own, for observations and rewards.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(
        self,
        *,
        client: Client | None = None,
        policy: PolicyLike | None = None,
        image: str | None = None,
        name: str | None = None,
        labels: Mapping[str, str] | None = None,
        setup: str | None = None,
        max_steps: int | None = None,
        transform: Transform[CodeObservation] | None = None,
        rubric: Rubric | None = None,
    ) -> None:
        super().__init__(transform, rubric)
        self._client = client
        self._made: dict[str, Any] = {"policy": policy, "image": image, "name": name, "labels": labels}
        self._setup = setup
        self._max_steps = max_steps
        self._session: Session | None = None
        self._state = CodeState()

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        setup: str | None = None,
        variables: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> CodeObservation:
        """Begins an episode in a session of its own.

        Args:
            seed: of Python's random.
            episode_id: else a generated one.
            setup: code that is executed, instead of the environment's own.
            variables: of the session.

        Raises:
            ProgramError: setup failed.
            APIError, Unreachable: no session is available.
        """
        self.close()
        self._reset_rubric()
        client = self._client if self._client is not None else default_client()
        session = self._session = client.session(**self._made).start()
        self._state = CodeState(episode_id=episode_id or str(uuid.uuid4()), session_id=session.id)
        for variable, value in (variables or {}).items():
            session.set(variable, value)
        if seed is not None:
            session.run(f"__import__('random').seed({seed:d})").check()
        code = self._setup if setup is None else setup
        return self._apply_transform(observed(session.run(code).check()) if code else CodeObservation())

    def step(self, action: CodeAction, timeout_s: float | None = None, **kwargs: Any) -> CodeObservation:
        """Executes an action. Without an episode, it begins one.

        Raises:
            InfraError: the fleet lost the session: the effect of the action is unknown.
            ConflictError: the session had ended before.
        """
        if self._session is None:
            self.reset()
        session = self._session
        assert session is not None
        limits = [t for t in (action.timeout, timeout_s) if t is not None]
        wall = min(limits) if limits else None
        e = session.shell(action.code, wall=wall) if action.shell else session.run(action.code, wall=wall)
        if e.infra and e.outcome != "canceled":
            raise InfraError(e)
        observation = observed(e)
        self._state.step_count += 1
        self._state.last_outcome, self._state.last_exit_code = observation.outcome, observation.exit_code
        observation.done = not e.alive or (self._max_steps is not None and self._state.step_count >= self._max_steps)
        observation.reward = self._apply_rubric(action, observation)
        return self._apply_transform(observation)

    @property
    def state(self) -> CodeState:
        """The state of the episode."""
        return self._state

    def close(self) -> None:
        """Ends the episode, and its session."""
        session, self._session = self._session, None
        if session is not None:
            session.close()

    def get_metadata(self) -> EnvironmentMetadata:
        """A description of the environment."""
        text = "Python and shell sessions in sandboxes of an Assay fleet"
        return EnvironmentMetadata(name="assay", description=text, version=__version__)


def observed(e: Execution) -> CodeObservation:
    """An execution as an observation."""
    code = e.exit_code if e.exit_code is not None else 0 if e.ok else 1
    return CodeObservation(
        stdout=e.stdout, stderr=e.stderr, exit_code=code or (0 if e.ok else 1), outcome=e.outcome, message=e.message,
        value=json_or_repr(e.raw.get("value")), error=e.error.to_dict() if e.error else None, duration=e.duration,
        variables={name: v.repr for name, v in e.variables.items()},
    )  # fmt: skip


class AssayEnv(EnvClient[CodeAction, CodeObservation, CodeState]):
    """The client of the environment: OpenEnv's own, with these types."""

    def _step_payload(self, action: CodeAction) -> dict[str, Any]:
        return action.model_dump(exclude_none=True)

    def _parse_result(self, payload: dict[str, Any]) -> StepResult[CodeObservation]:
        reward, done = payload.get("reward"), bool(payload.get("done"))
        told: dict[str, Any] = payload.get("observation") or {}
        observation = CodeObservation.model_validate({**told, "reward": reward, "done": done})
        return StepResult(observation=observation, reward=reward, done=done, metadata=payload.get("metadata"))

    def _parse_state(self, payload: dict[str, Any]) -> CodeState:
        return CodeState.model_validate(payload)


def app(*, max_concurrent_envs: int = 64, **of_the_environment: Any) -> Any:
    """The environment as an application of OpenEnv's server, for that many connections at once.

    Further arguments are passed to AssayEnvironment. All connections share its rubric and its transform. If these
    have state, pass a factory to OpenEnv's create_app instead.
    """
    factory = partial(AssayEnvironment, **of_the_environment)
    return create_app(
        factory,
        CodeAction,
        CodeObservation,
        env_name="assay",
        max_concurrent_envs=max_concurrent_envs,
        state_cls=CodeState,
    )
