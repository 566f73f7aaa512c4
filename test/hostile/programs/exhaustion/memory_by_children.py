# tries: spread its memory over children, each below the limit
# outcome: out_of_memory
import os, time
for _ in range(16):
    if os.fork() == 0:
        keep = bytearray(40 << 20)
        time.sleep(30)
        os._exit(0)
for _ in range(16):
    os.wait()
raise SystemExit("nobody was killed")
