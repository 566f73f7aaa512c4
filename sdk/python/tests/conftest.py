"""One real fleet for all tests: `assay dev` in a directory of its own, on a free port."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from fleet import start_fleet, stop_fleet


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Address of the fleet; ASSAY_TEST_URL names one that runs already."""
    if given := os.environ.get("ASSAY_TEST_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="assay-sdk-") as directory:
        fleet, address = start_fleet(Path(directory) / "fleet")
        yield address
        stop_fleet(fleet)


@pytest.fixture
def client(url: str) -> Iterator[assay.Client]:
    with assay.Client(url) as c:
        yield c
