"""Sends an exception that is too large to relay, with a line that is not a number."""

import json, os, struct
def solve(x, how="str", *more):
    body = json.dumps({"op": "raise", "exception": {"type": "x" * (1 << 20), "message": ["y"], "line": 1 << 200, "traceback": "z" * (6 << 20), "mro": 7, "args": {}}}).encode()
    data = struct.pack(">I", len(body)) + body
    for fd in range(5, 8):
        rest = data
        try:
            while rest: rest = rest[os.write(fd, rest):]
        except OSError: pass
