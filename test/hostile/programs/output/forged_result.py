# tries: write a result of its own to the harness's descriptor, and then more without end
# outcome: succeeded
import os
forged = b'{"value": {"type": "x", "repr": "%s"}, "variables": {}}' % (b"x" * 100000)
for fd in range(3, 64):
    try:
        os.write(fd, forged)
        for _ in range(300):
            os.write(fd, b"\xff" * 65536)
    except OSError:
        pass
os.write(1, b"contained\n")
os._exit(0)
