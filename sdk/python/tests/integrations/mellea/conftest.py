"""A fleet with a package index of one package, for programs that install packages."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from mellea.stdlib.tools.execution_policy import CapabilityPolicy

import assay
from assay.integrations.mellea import AssayEnvironment
from fleet import start_fleet, stop_fleet

WHEEL = "friendly-1.2-py3-none-any.whl"

Make = Callable[..., AssayEnvironment]


def wheel() -> bytes:
    """A package of one module."""
    files = {
        "friendly.py": b"word = 'hello'\n",
        "friendly-1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: friendly\nVersion: 1.2\n",
        "friendly-1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "friendly-1.2.dist-info/RECORD"
    lines = [f"{n},sha256={_digest(data)},{len(data)}" for n, data in files.items()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as z:
        for name, data in {**files, record: "\n".join([*lines, f"{record},,", ""]).encode()}.items():
            z.writestr(name, data)
    return out.getvalue()


def _digest(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


class Index(BaseHTTPRequestHandler):
    """The simple index of that package."""

    def do_GET(self) -> None:
        pages = {
            "/simple/friendly/": f'<a href="/files/{WHEEL}">{WHEEL}</a>'.encode(),
            f"/files/{WHEEL}": wheel(),
        }
        body = pages.get(self.path)
        self.send_response(404 if body is None else 200)
        self.send_header("Content-Type", "text/html" if self.path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a fleet whose workers install from that index."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    index = f"http://127.0.0.1:{server.server_port}/simple"
    process, address = start_fleet(tmp_path_factory.mktemp("indexed") / "fleet", {"ASSAY_PIP_INDEX": index})
    yield address
    stop_fleet(process)
    server.shutdown()


@pytest.fixture
def make(client: assay.Client) -> Make:
    """Makes environments on the fleet: options of AssayEnvironment, and fields of a CapabilityPolicy of mellea's."""

    own = {"allowed_imports", "working_directory", "image", "limits", "variables", "export_dir", "deadline", "client"}

    def environment(**options: Any) -> AssayEnvironment:
        policy = CapabilityPolicy(**{k: v for k, v in options.items() if k not in own})
        given = {k: v for k, v in options.items() if k in own}
        return AssayEnvironment(policy=policy, **{"client": client, **given})

    return environment
