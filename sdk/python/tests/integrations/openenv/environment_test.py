"""The environment behind OpenEnv's own server, used by its own client."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import uvicorn
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment, Transform
from openenv.core.generic_client import GenericEnvClient
from openenv.core.rubrics import Rubric

import assay
from assay.integrations.openenv import AssayEnv, AssayEnvironment, CodeAction, CodeObservation, CodeState, app

URL = os.environ["ASSAY_TEST_URL"]
client = assay.Client(URL)


class Served:
    """An application on a free port."""

    def __init__(self, application: Any) -> None:
        self._server = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=0, log_level="warning"))
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def __enter__(self) -> str:
        self._thread.start()
        end = time.monotonic() + 60
        while not self._server.started:
            assert time.monotonic() < end
            time.sleep(0.05)
        return f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    with Served(app(client=client, policy={"wall": "20s"}, max_concurrent_envs=8)) as url:
        yield url


def live(id: str | None) -> bool:
    assert id
    return client.api.get_session(id).state == "live"


def test_episode(served: str) -> None:
    with AssayEnv(base_url=served).sync() as env:
        first = env.reset(episode_id="one", variables={"x": 20})
        assert not first.done
        assert isinstance(first.observation, CodeObservation)
        r = env.step(CodeAction(code="y = x + 1\nprint('out')\ny"))
        o = r.observation
        assert (o.stdout, o.value, o.exit_code, o.outcome, r.reward, r.done) == (
            "out\n",
            21,
            0,
            "succeeded",
            0.0,
            False,
        )
        assert o.variables == {"y": "21"}
        assert 0 <= o.duration < 20
        assert env.step(CodeAction(code="y * 2")).observation.value == 42, "the namespace stays"
        o = env.step(CodeAction(code="cat /etc/hostname >/dev/null; echo $0; exit 3", shell=True)).observation
        assert (o.exit_code, o.outcome) == (3, "failed")
        state = env.state()
        assert isinstance(state, CodeState)
        assert (state.episode_id, state.step_count, state.last_exit_code) == ("one", 3, 3)
        assert live(state.session_id)
        env.reset()
        again = env.state()
        assert (again.step_count, again.last_outcome) == (0, None)
        assert again.session_id != state.session_id
        assert not live(state.session_id), "an episode's session ends with it"
        assert env.step(CodeAction(code="x")).observation.error["type"] == "NameError"  # type: ignore[index]
    end = time.monotonic() + 15
    while live(again.session_id):
        assert time.monotonic() < end, "the session ends with the connection"
        time.sleep(0.1)


def test_what_programs_do_is_an_observation(served: str) -> None:
    with AssayEnv(base_url=served).sync() as env:
        env.reset()
        o = env.step(CodeAction(code="def f():\n    raise ValueError('no')\nf()")).observation
        assert (o.outcome, o.exit_code, o.done) == ("exception", 1, False)
        assert o.error is not None
        assert (o.error["type"], o.error["message"], o.error["line"]) == ("ValueError", "no", 2)
        assert "Traceback" in o.stderr
        o = env.step(CodeAction(code="import time; time.sleep(10)", timeout=0.5)).observation
        assert (o.outcome, o.done) == ("timed_out", False)
        o = env.step(CodeAction(code="print('x' * 10_000_000)")).observation
        assert len(o.stdout) < 1_000_000
        r = env.step(CodeAction(code="import os; os._exit(7)"))
        assert r.done
        assert "ended" in r.observation.message
        with pytest.raises(RuntimeError, match="has ended"):
            env.step(CodeAction(code="1"))
        env.reset()
        assert env.step(CodeAction(code="1")).observation.value == 1


def test_bad_input(served: str) -> None:
    with GenericEnvClient(base_url=served).sync() as env:
        env.reset()
        for bad in ({}, {"code": ""}, {"code": 7}, {"code": "1", "timeout": 0}, {"code": "1", "other": 1}):
            with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
                env.step(bad)
        with pytest.raises(RuntimeError, match="SyntaxError"):
            env.reset(setup="1 +")
        assert env.step({"code": "1 + 1"}).observation["value"] == 2, "an episode begins with its first step, too"


def test_setup_seed_and_max_steps() -> None:
    with Served(app(client=client, setup="base = 7", max_steps=2, labels={"test": "openenv"})) as url:
        with AssayEnv(base_url=url).sync() as env:
            values = []
            for _ in range(2):
                env.reset(seed=3)
                values.append(env.step(CodeAction(code="import random; random.random()")).observation.value)
            assert values[0] == values[1]
            assert env.step(CodeAction(code="base")).done, "the second of two"
            assert client.api.get_session(env.state().session_id).spec.labels == {"test": "openenv"}
            assert env.reset(setup="base = 8; print('ready')").observation.stdout == "ready\n"
            assert env.step(CodeAction(code="base")).observation.value == 8


class Counts(Rubric):
    """One point for each line."""

    def forward(self, action: Any, observation: Any) -> float:
        return float(len(observation.stdout.splitlines()))


class Upper(Transform[CodeObservation]):
    """Shouts."""

    def __call__(self, observation: CodeObservation) -> CodeObservation:
        return observation.model_copy(update={"stdout": observation.stdout.upper()})


def test_rubric_and_transform() -> None:
    def factory() -> Environment[CodeAction, CodeObservation, CodeState]:
        return AssayEnvironment(client=client, rubric=Counts(), transform=Upper())

    with Served(create_app(factory, CodeAction, CodeObservation, max_concurrent_envs=2)) as url:
        with AssayEnv(base_url=url).sync() as env:
            env.reset()
            r = env.step(CodeAction(code="print('a'); print('b')"))
            assert (r.reward, r.observation.reward, r.observation.stdout) == (2.0, 2.0, "A\nB\n")


def test_episodes_at_once(served: str) -> None:
    async def one(i: int) -> Any:
        async with AssayEnv(base_url=served) as env:
            await env.reset()
            await env.step(CodeAction(code=f"x = {i}"))
            await env.step(CodeAction(code="import time; time.sleep(0.5)"))
            return (await env.step(CodeAction(code="x"))).observation.value

    async def main() -> list[Any]:
        return await asyncio.gather(*(one(i) for i in range(6)))

    assert asyncio.run(main()) == list(range(6))


def test_http(served: str) -> None:
    """Without a connection each request has an environment of its own."""
    assert httpx.get(f"{served}/health").json()["status"] == "healthy"
    assert httpx.get(f"{served}/metadata").json()["name"] == "assay"
    schema = httpx.get(f"{served}/schema").json()
    assert set(schema["action"]["properties"]) >= {"code", "shell", "timeout"}
    assert "last_outcome" in schema["state"]["properties"]
    r = httpx.post(f"{served}/step", json={"action": {"code": "6 * 7"}, "timeout_s": 10}, timeout=60)
    assert r.json()["observation"]["value"] == 42
    assert httpx.post(f"{served}/step", json={"action": {}}).status_code == 422


def test_a_fleet_that_is_away_has_no_reward() -> None:
    dead = assay.Client("http://127.0.0.1:1", patience=0.1)
    with Served(app(client=dead, max_concurrent_envs=2)) as url:
        with AssayEnv(base_url=url).sync() as env:
            with pytest.raises(RuntimeError, match="does not answer"):
                env.reset()
            with pytest.raises(RuntimeError, match="does not answer"):
                env.step(CodeAction(code="1"))
