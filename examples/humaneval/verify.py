"""Runs every job of a batch file with the local python3 and checks its outcome.

    go run ./examples/humaneval/generate | python3 examples/humaneval/verify.py [TIMES]

Exit 0 only if every reference passed and every wrong solution failed its check, TIMES
times in a row. It has no walls: the programs are the ones of this directory.
"""

import concurrent.futures
import json
import os
import subprocess
import sys
import time


def right(spec):
    start = time.monotonic()
    tests = spec["program"]["tests"]
    program = "%(code)s\n%(check)s\ncheck(%(function)s)\n" % tests
    run = subprocess.run([sys.executable, "-I", "-c", program],
                         stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30)
    took = time.monotonic() - start
    last = (run.stderr.strip().splitlines() or [""])[-1]
    if spec["labels"]["variant"] == "reference":
        return run.returncode == 0, took
    return run.returncode == 1 and last.startswith("AssertionError"), took


def main():
    specs = [json.loads(line) for line in sys.stdin] * int((sys.argv[1:] or ["1"])[0])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = list(pool.map(right, specs))
    for spec, (ok, _) in zip(specs, verdicts):
        if not ok:
            print("wrong verdict:", spec["name"])
    good = sum(ok for ok, _ in verdicts)
    print(f"{good} right verdicts of {len(specs)}; the slowest program took {max(t for _, t in verdicts):.2f} s")
    return good != len(specs)


if __name__ == "__main__":
    sys.exit(main())
