"""Encodes the Python values in jobs and tests as JSON of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ._arguments import labeled
from ._values import Encoder, Tagged, encode, encode_all
from .models._model import Model, to_json


def encode_job(job: Any) -> dict[str, Any]:
    """A job as JSON of the API, with encoded values of tests and variables. UnsendableError names a value that
    cannot be."""
    if isinstance(job, Tagged):
        return cast("dict[str, Any]", job.json)
    out: dict[str, Any] = {}
    for field, value in fields_of(job).items():
        program = fields_of(value) if field == "program" else None
        if field == "labels" and value is not None:
            value = labeled(value)
        out[field] = to_json(value) if program is None else {k: _part(k, v) for k, v in program.items()}
    return out


def _part(kind: str, value: Any) -> Any:
    """A program of one kind."""
    if kind == "tests" and is_object(value):
        return encode_tests(value, "program.tests")
    if kind == "python" and is_object(value):
        return encode_python(fields_of(value), "program.python.")
    return to_json(value)


def encode_python(python: Mapping[str, Any], at: str = "") -> dict[str, Any]:
    """A snippet with its variables: in the tagged encoding, if plain JSON cannot represent one of them."""
    out: dict[str, Any] = {k: to_json(v) for k, v in python.items() if k not in ("variables", "context")}
    if python.get("tagged"):  # by the caller
        return {**out, **{k: python[k] for k in ("variables", "context") if k in python}}
    variables, tagged = encode_all(fields_of(python.get("variables") or {}), at + "variables")
    if python.get("variables") is not None:
        out["variables"] = variables
    if python.get("context") is not None:
        encoder = Encoder()
        out["context"] = encoder.encode(python["context"], at + "context")
        tagged = tagged or encoder.tagged
    return {**out, "tagged": True} if tagged else out


def encode_tests(tests: Any, at: str) -> dict[str, Any]:
    """Tests as JSON of the API, at the path."""
    if isinstance(tests, Tagged):
        return cast("dict[str, Any]", tests.json)
    at = at and at + "."
    out: dict[str, Any] = {}
    for field, value in fields_of(tests).items():
        if field == "cases" and isinstance(value, (list, tuple)):
            cases = cast("list[Any]", value)
            out[field] = [_case(c, f"{at}cases[{i}].") for i, c in enumerate(cases)]
        else:
            out[field] = to_json(value)
    return out


def _case(case: Any, at: str) -> Any:
    if not is_object(case):
        return to_json(case)
    out: dict[str, Any] = {}
    for field, value in fields_of(case).items():
        if field == "args" and type(value) in (list, tuple):
            out[field] = [encode(v, f"{at}args[{i}]") for i, v in enumerate(value)]
        elif field == "kwargs" and isinstance(value, Mapping):
            out[field], _ = encode_all(fields_of(value), at + "kwargs")
        elif field in ("args", "kwargs"):
            out[field] = value.json if isinstance(value, Tagged) else encode(value, at + field)
        elif field == "expected":
            out[field] = Encoder(arrays=False).encode(value, at + field)
        else:
            out[field] = to_json(value)
    return out


def is_object(value: Any) -> bool:
    return isinstance(value, (Mapping, Model, Tagged))


def fields_of(value: Any) -> dict[str, Any]:
    """The fields of an object of the API; TypeError if it is none."""
    if isinstance(value, Model):
        return value.fields()
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__} is not an object of the API, such as a dict")
    return {str(k): v for k, v in cast("Mapping[Any, Any]", value).items()}
