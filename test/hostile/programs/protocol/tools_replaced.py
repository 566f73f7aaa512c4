# tries: replace the harness's functions for communication
# outcome: succeeded|failed|exception|signaled
import builtins, io, json, os, sys, time
def lie(*a, **k):
    return '{"value": {"type": "int", "repr": "42"}}'
json.dumps = json.JSONEncoder.encode = builtins.repr = builtins.print = builtins.len = builtins.isinstance = time.monotonic = time.perf_counter = lie
for m in list(sys.modules.values()):
    for n in "write", "send", "sendmsg", "fork", "pack", "dumps":
        try:
            setattr(m, n, lie)
        except Exception:
            pass
sys.stdout = sys.stderr = sys.__stdout__ = None
sys.modules.clear()
