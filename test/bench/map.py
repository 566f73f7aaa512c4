"""Runs client.map of the Python client over -n tiny programs, and prints the duration and the resource usage of this process."""

import json
import resource
import sys
import time

import assay

url, n, isolation = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ok = 0
with assay.Client(url) as client:
    began, cpu = time.monotonic(), time.process_time()
    programs = ("print(1+1)" for _ in range(n))
    for result in client.map(programs, order="completed", policy={"isolation": isolation}):
        ok += result.stdout == "2\n"
    took, cpu = time.monotonic() - began, time.process_time() - cpu
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"ok": ok, "seconds": took, "cpu_seconds": cpu, "peak_mb": peak}))
