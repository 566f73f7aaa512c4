"""Requests of each operation, and a real fleet's answers: the examples of the OpenAPI document.

`test/schema/run --examples` writes them to api/examples.json, by operationId. A dispatcher adds them to its document.
"""

import hashlib
import json
import threading
import time
import urllib.error

PROGRAM = {"name": "sum", "labels": {"run": "7"}, "program": {"python": {"code": "print(sum(range(10)))"}},
           "policy": {"wall": "5s", "memory": "128Mi"}}
LINES = [{"name": f"case-{i}", "program": {"python": {"code": f"assert {i} < 1, 'too large'"}}} for i in range(2)]
MOST = 2  # elements of a list, and entries of a map whose keys are data


def record(call):
    """Calls each operation. call(name, method, path, body, kind) returns the answer; a body of another kind than JSON is text."""
    _jobs(call)
    _batches(call)
    _policies(call)
    _uploads(call)
    _keys(call)
    _sessions(call)
    _fleet(call)


def _jobs(call):
    writes = PROGRAM | {"program": {"python": {"code": "import os; os.makedirs('out'); open('out/a.txt', 'w').write('made'); print('hello')"}},
                        "policy": {"artifacts": {"paths": ["/workspace/out/**"]}}}
    call("run", "POST", "/v1/run?wait=60s", PROGRAM)
    job = call("submitJob", "POST", "/v1/jobs", writes)["id"]
    call("getResult", "GET", f"/v1/jobs/{job}/result?wait=60s")
    call("getJob", "GET", f"/v1/jobs/{job}?wait=60s")
    call("listJobs", "GET", "/v1/jobs?state=finished&limit=2")
    call("listArtifacts", "GET", f"/v1/jobs/{job}/artifacts")
    call("makeLink", "POST", f"/v1/jobs/{job}/links", {"path": "/workspace/out/a.txt", "expires_in": "1h"})
    call("cancelJob", "POST", f"/v1/jobs/{job}/cancel")
    call("cancelJobs", "POST", "/v1/jobs/cancel", {"labels": {"run": "7"}, "dry_run": True})
    call("prioritizeJobs", "POST", "/v1/jobs/priority", {"labels": {"run": "7"}, "priority": 5})
    call("deleteJob", "DELETE", f"/v1/jobs/{job}")
    call("check", "POST", "/v1/check", {"programs": [{"name": "p1", "code": "import os\ndef add(a, b):\n    return a + c\n",
                                                      "policy": {"imports": {"deny": ["os"]}}}]})
    blob = b"an input that is too large for a job"
    call("putBlob", "PUT", f"/v1/blobs/sha256:{hashlib.sha256(blob).hexdigest()}", blob.decode(), "application/octet-stream")


def _batches(call):
    batch = call("submitBatch", "POST", "/v1/batches", {"name": "evaluation", "labels": {"run": "7"}, "jobs": LINES})["id"]
    call("getBatch", "GET", f"/v1/batches/{batch}?wait=60s")
    call("listBatches", "GET", "/v1/batches?limit=2")
    call("batchStates", "GET", f"/v1/batches/states?id={batch}")
    call("listJobsOfBatch", "GET", f"/v1/batches/{batch}/jobs?failed=true")
    call("batchSummary", "GET", f"/v1/batches/{batch}/summary")
    call("batchMap", "GET", f"/v1/batches/{batch}/map")
    call("keepBatch", "POST", f"/v1/batches/{batch}/keepalive")
    call("cancelBatch", "POST", f"/v1/batches/{batch}/cancel")
    again = call("retryBatch", "POST", f"/v1/batches/{batch}/retry")["id"]
    call("compareBatches", "GET", f"/v1/batches/{batch}/compare/{again}")
    call("verify", "POST", "/v1/admin/verify", {"batch": batch})
    call("deleteBatch", "DELETE", f"/v1/batches/{batch}")


def _policies(call):
    call("putPolicy", "PUT", "/v1/policies/small", {"memory": "128Mi", "network": {"mode": "none"}})
    call("listPolicies", "GET", "/v1/policies")
    call("getPolicy", "GET", "/v1/policies/small")
    call("explainPolicy", "POST", "/v1/policies/explain?program=python", "small")
    call("putSecret", "PUT", "/v1/secrets/pypi", {"value": "a secret of the example"})
    call("listSecrets", "GET", "/v1/secrets")


def _sessions(call):
    session = call("createSession", "POST", "/v1/sessions", {"kind": "python", "idle_timeout": "5m", "policy": {"callbacks": {"allow": ["*"]}, "artifacts": {"paths": ["/workspace/out/**"]}}})["id"]
    at = f"/v1/sessions/{session}"
    call("execute", "POST", f"{at}/execute", {"code": "x = 6 * 7\nx"})
    call("getSession", "GET", at)
    call("listSessions", "GET", "/v1/sessions?state=live")
    call("listExecutions", "GET", f"{at}/executions")
    call("putContext", "PUT", f"{at}/context", {"question": "how many?"})
    call("putVariable", "PUT", f"{at}/variables/y", [1, 2])
    call("listVariables", "GET", f"{at}/variables")
    call("getVariable", "GET", f"{at}/variables/y")
    call("putFunctions", "PUT", f"{at}/functions", {"functions": ["look_up"]})
    _answer(call, at)
    call(None, "POST", f"{at}/execute", {"command": "mkdir -p out && echo made > out/a.txt"})
    call("exportArtifacts", "POST", f"{at}/artifacts")
    call("listExportedArtifacts", "GET", f"{at}/artifacts")
    fork = call("forkSession", "POST", f"{at}/fork")["id"]
    call("resetSession", "POST", f"{at}/reset")
    call("closeSession", "DELETE", f"/v1/sessions/{fork}")
    call("closeSession", "DELETE", at)


def _uploads(call):
    upload = call("openUpload", "POST", "/v1/uploads", {"name": "large", "labels": {"run": "7"}})["id"]
    lines = "".join(json.dumps(line) + "\n" for line in LINES)
    call("putChunk", "PUT", f"/v1/uploads/{upload}/chunks/0", lines, "application/x-ndjson")
    call("getUpload", "GET", f"/v1/uploads/{upload}")
    call("sealUpload", "POST", f"/v1/uploads/{upload}/seal", {"jobs": len(LINES)})


def _keys(call):
    key = call("createKey", "POST", "/v1/keys", {"name": "trainer", "role": "submitter", "label": "run=7", "for": "24h"})["key"]["id"]
    call("getKey", "GET", f"/v1/keys/{key}")
    call("listKeys", "GET", "/v1/keys")
    call("revokeKey", "DELETE", f"/v1/keys/{key}?reason=its+run+is+over")


def _answer(call, at):
    """Calls a host function from code in a session, and answers the call."""
    asks = threading.Thread(target=call, args=(None, "POST", f"{at}/execute", {"code": "look_up('how many?')"}))
    asks.start()
    for _ in range(100):
        try:
            call("answerCall", "POST", f"{at}/answers", {"call": 1, "value": 42})
            break
        except urllib.error.HTTPError:
            time.sleep(0.1)
    asks.join()


def _fleet(call):
    worker = call("listWorkers", "GET", "/v1/workers")["workers"][0]["id"]
    call("getFleet", "GET", "/v1/fleet")
    call("listLanguages", "GET", "/v1/languages")
    call("healthz", "GET", "/healthz")
    call("readyz", "GET", "/readyz")
    why = {"reason": "its disk is replaced"}
    call("getWorker", "GET", f"/v1/admin/workers/{worker}")
    call("quarantineWorker", "POST", f"/v1/admin/workers/{worker}/quarantine", why | {"for": "10m"})
    call("unquarantineWorker", "POST", f"/v1/admin/workers/{worker}/unquarantine", why)
    call("cordonWorker", "POST", f"/v1/admin/workers/{worker}/cordon", why)
    call("uncordonWorker", "POST", f"/v1/admin/workers/{worker}/uncordon", why)
    call("cordonWorkers", "POST", "/v1/admin/workers/cordon", why | {"workers": {"pool": "default"}, "dry_run": True})
    call("uncordonWorkers", "POST", "/v1/admin/workers/uncordon", {"workers": {"state": "cordoned"}})
    call("requeue", "POST", "/v1/admin/requeue", why | {"worker": worker})
    call("pause", "POST", "/v1/admin/pause", why | {"tenant": "team"})
    call("listPauses", "GET", "/v1/admin/pauses")
    call("resume", "POST", "/v1/admin/resume", {"tenant": "team"})
    call("overrideTenant", "POST", "/v1/admin/tenants/team/override", {"weight": 2, "for": "1h", "reason": "its deadline is today"})
    call("getTenant", "GET", "/v1/admin/tenants/team")
    call("restoreTenant", "POST", "/v1/admin/tenants/team/restore", {})
    call("listTenants", "GET", "/v1/tenants")
    call("putTenant", "PUT", "/v1/tenants/students", {"weight": 1, "max_running": 16, "ceiling": {"memory": "512Mi"}, "reason": "a course begins"})
    call("showTenant", "GET", "/v1/tenants/students")
    call("listActions", "GET", "/v1/admin/actions?limit=2")
    call("getLeader", "GET", "/v1/admin/leader")
    schema = call("getVersion", "GET", "/v1/admin/version")["schema"]["has"]
    call("getWhySlow", "GET", "/v1/admin/why-slow")
    call("sweep", "POST", "/v1/admin/sweep", {"dry_run": True})
    call("importTenant", "POST", "/v1/admin/tenants/guest/import?reason=its%20cell%20is%20full", _exported("guest", schema), "application/x-ndjson")


def _exported(tenant, schema):
    """The file of a tenant that has nothing."""
    head = json.dumps({"assay_tenant": 1, "id": "01a22064-5c00-7000-a5f5-b86097969409", "fleet": "elsewhere", "schema": schema, "tenant": tenant,
                       "at": "2026-11-28T04:23:00Z", "objects": []}) + "\n"
    return head + json.dumps({"end": {"rows": {}, "sha256": hashlib.sha256(head.encode()).hexdigest()}}) + "\n"


def short(value):
    """A value with the first elements of its lists only: the document shows examples, not all data."""
    if isinstance(value, list):
        return [short(v) for v in value[:MOST]]
    if isinstance(value, dict):
        return {k: "assay_" + 43 * "x" if k == "token" and str(v).startswith("assay_") else short(v) for k, v in value.items()}
    return value
