# tries: outrun the counting of processes: each child forks before its parent dies
# outcome: succeeded|timed_out|process_limit
# policy: {"wall": "2s"}
import os, time
end = time.monotonic() + 1
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
