"""Runs a program whose policy allows one host, and prints the record of its attempts.

    python3 examples/egress/egress.py http://127.0.0.1:8080 http://example.org http://example.com

The first address is the fleet's. The program requests both others, and only the first of them is on its list.
"""

import json
import os
import sys
import urllib.parse
import urllib.request

PROGRAM = """
import urllib.error, urllib.request

for url in urls:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            print(url, answer.status)
    except urllib.error.HTTPError as refused:  # by the proxy, which says why
        print(url, refused.code)
"""


def run(fleet, spec):
    """Submits a job and returns its result."""
    headers = {"Content-Type": "application/json"}
    if token := os.environ.get("ASSAY_TOKEN"):
        headers["Authorization"] = "Bearer " + token
    request = urllib.request.Request(fleet + "/v1/run?wait=2m", json.dumps(spec).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main(fleet, allowed, refused):
    at = urllib.parse.urlsplit(allowed)
    result = run(fleet, {
        "program": {"python": {"code": PROGRAM, "variables": {"urls": [allowed, refused]}}},
        "policy": {
            "wall": "30s",
            "network": {"mode": "allow", "allow": [f"{at.hostname}:{at.port or 80}"], "max_bytes": "1Mi"},
        },
    })
    print("outcome:", result["outcome"])
    print(result["stdout"]["text"], end="")
    print(result["stderr"]["text"], end="", file=sys.stderr)
    for attempt in result["network"]["attempts"]:
        print(f"{attempt['decision']}: {attempt['host']}:{attempt['port']}", attempt.get("reason", ""))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
