"""Hooks of test/schema/run for schemathesis: ids of existing objects, and no long waits."""

import json
import os
import random
import uuid

import schemathesis

SEEDS = json.loads(os.environ.get("ASSAY_SCHEMA_SEEDS", "{}"))
"""Path up to its parameter, such as /v1/jobs/, to the values of that parameter that exist."""


@schemathesis.hook
def before_call(context, case, kwargs):
    """Replaces unknown ids in two of three requests by existing ones: otherwise all answers would be 404."""
    if _stops(case) and case.path_parameters.get("worker") in SEEDS.get("/v1/admin/workers/", []):
        case.path_parameters["worker"] = "elsewhere"
    if case.meta and case.meta.phase.name == "stateful":
        key = (case.headers or {}).get("Idempotency-Key")
        if key is not None and len(key) <= 255:  # an earlier test's key would return its object, which may be erased by now
            case.headers["Idempotency-Key"] = str(uuid.uuid4())
        return _short(case)  # its ids are of objects that earlier requests made
    for name, value in list((case.path_parameters or {}).items()):
        there = SEEDS.get(case.path.split("{" + name)[0])
        if there and _plausible(value) and not _stops(case) and case.method != "DELETE" and random.random() < 2 / 3:
            case.path_parameters[name] = random.choice(there)
    _short(case)


@schemathesis.serializer("application/x-ndjson")
def ndjson(context, value):
    return value.encode(errors="ignore") if isinstance(value, str) else json.dumps(value).encode()


def _short(case):
    """Shortens waits. By default /v1/run waits for minutes, and its job may have to: the test's sessions hold slots."""
    wait = (case.query or {}).get("wait")
    if isinstance(wait, str) and wait[:1].isdigit():
        case.query["wait"] = "50ms" if case.path != "/v1/check" else "10s"
    elif not wait and case.path == "/v1/run":
        case.query = {**(case.query or {}), "wait": "10s"}


def _stops(case):
    """Whether a request would stop the only worker, which would make the rest of the test meaningless."""
    return case.path.endswith(("/cordon", "/quarantine"))


def _plausible(value):
    """Whether the document allows a value. Other values stay, and must be refused."""
    try:
        return bool(uuid.UUID(str(value)))
    except ValueError:
        return str(value).isalnum()
