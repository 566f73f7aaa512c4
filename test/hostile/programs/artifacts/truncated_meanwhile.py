# tries: truncate and grow a file while it is read
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/f"], "max_bytes": "1Mi", "max_files": 50}}
# kept: /workspace/f
import os, time
f = os.open("/workspace/f", os.O_CREAT | os.O_RDWR, 0o644)
os.ftruncate(f, 500000)
print("contained", flush=True)
if os.fork() == 0:
    os.closerange(0, 3)
    os.setsid()
    while True:
        os.ftruncate(f, 0)
        os.ftruncate(f, 500000)
