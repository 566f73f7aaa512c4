"""Inspect AI's own conformance suite for sandboxes, on a real fleet: every check of it but those in EXCEPT."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox import self_check
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from assay.integrations.inspect_ai import AssaySandboxEnvironment

pytestmark = pytest.mark.anyio

EXCEPT = {
    "test_exec_as_user": "programs are user 1000 of their sandbox, and no root is there who could add another user",
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox_env(request: pytest.FixtureRequest, url: str) -> AsyncIterator[SandboxEnvironment]:
    reason = EXCEPT.get(request.node.originalname)
    if reason:
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    environments = await AssaySandboxEnvironment.sample_init("conformance", None, {})
    yield environments["default"]
    await AssaySandboxEnvironment.sample_cleanup("conformance", None, environments, False)


def test_all_checks_are_run_but_at_most_three() -> None:
    checks = set(self_check.__all__)
    assert len(checks) >= 40
    assert checks <= set(globals())
    assert checks >= set(EXCEPT)
    assert len(EXCEPT) <= 3
