"""One real fleet for all tests: `assay dev` in a directory of its own, on a free port; none with --no-fleet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import assay
from fleet import NO_FLEET, start_fleet, stop_fleet


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-fleet", action="store_true", help="only tests that need no fleet")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--no-fleet"):
        return
    os.environ[NO_FLEET] = "1"  # a test that still starts one fails
    needs = [i for i in items if "url" in getattr(i, "fixturenames", ()) or i.get_closest_marker("fleet")]
    config.hook.pytest_deselected(items=needs)
    items[:] = [i for i in items if i not in needs]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Address of the fleet; ASSAY_TEST_URL names a running one."""
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


@pytest.fixture
def session(client: assay.Client) -> Iterator[assay.Session]:
    with client.session(lease=30) as s:
        yield s
