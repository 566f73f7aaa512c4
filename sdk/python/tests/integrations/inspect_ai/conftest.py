from __future__ import annotations

import os

import pytest


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of the fleet, also set in the environment."""
    monkeypatch.setenv("ASSAY_URL", os.environ["ASSAY_TEST_URL"])
    return os.environ["ASSAY_TEST_URL"]
