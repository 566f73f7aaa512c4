# tries: break the readers of its result with nesting, numbers and keys
# outcome: succeeded
import os
for text in b"[" * 1000000, b'{"variables": {"a": ' * 100000, b'{"value": 1e999999}', b'{"exception": 7, "value": []}', b"\x00" * 1000:
    for fd in range(3, 32):
        try:
            os.write(fd, text)
        except OSError:
            pass
os.write(1, b"contained\n")
os._exit(0)
