"""The OpenAPI document and this client match: every operation can be called, every schema read and written."""

from __future__ import annotations

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

import assay
from assay._async._api import AsyncAPI
from assay._sync._api import API
from assay.models import Model
from assay.models._model import parse_time
from generating import openapi

HERE = Path(__file__).resolve().parent
DOC = openapi()

OPERATIONS = [
    (path, verb, op, [*ops.get("parameters", []), *op.get("parameters", [])])
    for path, ops in DOC["paths"].items()
    for verb, op in ops.items()
    if verb != "parameters"
]


def resolved(it: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in it:
        _, _, kind, name = it["$ref"].split("/")
        it = DOC["components"][kind][name]
    return it


@pytest.mark.parametrize(
    ("path", "verb", "op", "parameters"), OPERATIONS, ids=[o[2]["operationId"] for o in OPERATIONS]
)
def test_operation(path: str, verb: str, op: dict[str, Any], parameters: list[dict[str, Any]]) -> None:
    """Called with everything that it takes, it makes the request that the document describes."""
    from operations import argument, snake

    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        request.read()
        seen.append(request)
        return httpx.Response(200, text="{}")

    api = assay.Client("http://fleet.test/base", transport=httpx.MockTransport(handler)).api
    method = getattr(api, snake(op["operationId"]))
    assert set(inspect.signature(method).parameters) == set(
        inspect.signature(getattr(AsyncAPI(None), snake(op["operationId"]))).parameters  # type: ignore[arg-type]
    )
    given = {argument(p["name"]): value(p) for p in map(resolved, parameters)}
    if "requestBody" in op:
        content = resolved(op["requestBody"])["content"]
        given["body"] = {"a": 1} if "application/json" in content else b"bytes"
    made = method(**given)
    if inspect.isgenerator(made):
        list(made)
    [request] = seen
    want = path
    for p in map(resolved, parameters):
        if p["in"] == "path":
            want = want.replace(f"{{{p['name']}}}", value(p))
        elif p["in"] == "query":
            assert request.url.params[p["name"]] == value(p)
        else:
            assert request.headers[p["name"]] == value(p)
    assert (request.method, request.url.path) == (verb.upper(), "/base" + want)
    assert ("requestBody" in op) == bool(request.content)


def value(p: dict[str, Any]) -> str:
    return "a/b" if p["name"] == "path" else "3s" if p["name"] == "wait" else "7"


def test_nothing_else_can_be_called() -> None:
    from operations import snake

    assert {n for n in vars(API) if not n.startswith("_")} == {snake(op["operationId"]) for _, _, op, _ in OPERATIONS}


@pytest.mark.parametrize("name", [n for n, s in DOC["components"]["schemas"].items() if s.get("properties")])
def test_model(name: str) -> None:
    model = getattr(assay.models, name)
    schema = DOC["components"]["schemas"][name]
    assert {model._wires.get(f.name, f.name) for f in dataclasses.fields(model)} == set(schema["properties"])
    sample = example(schema)
    read = model.from_dict({**sample, "of_a_newer_server": 1})
    assert read.to_dict() == sample
    empty = model.from_dict({})
    assert isinstance(empty, Model)
    assert model.from_dict(empty.to_dict()) == empty
    if dataclasses.fields(model):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(read, dataclasses.fields(model)[0].name, None)


def example(schema: dict[str, Any]) -> Any:
    """JSON that a schema allows, with every field."""
    s = resolved(schema)
    s = (
        example_of(s.get("allOf") or s.get("oneOf") or s.get("anyOf"))
        if "type" not in s and "properties" not in s
        else s
    )
    if s.get("properties"):
        return {k: example(v) for k, v in s["properties"].items()}
    kind = s.get("type", "")
    if isinstance(kind, list):  # it may be null as well
        kind = kind[0]
    if kind == "object":
        more = s.get("additionalProperties")
        return {"k": example(more) if isinstance(more, dict) and more else 1}
    if kind == "array":
        return [example(s["items"])]
    if s.get("format") == "date-time":
        return "2026-01-02T03:04:05.678900+00:00"
    return {"string": "text", "integer": 3, "number": 1.5, "boolean": True}.get(kind, "any")


def example_of(several: list[dict[str, Any]] | None) -> dict[str, Any]:
    return resolved(several[0]) if several else {}


def test_times() -> None:
    for text in ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z", "2026-01-02T05:04:05.1+02:00"):
        t = parse_time(text)
        assert t.tzinfo is not None
        assert t.astimezone(t.tzinfo).timestamp() == pytest.approx(1767323045, abs=1)


@pytest.mark.parametrize("script", ["models.py", "operations.py", "sync.py"])
def test_generated(script: str) -> None:
    done = subprocess.run(
        [sys.executable, script, "--check"], cwd=HERE.parent / "scripts", capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
