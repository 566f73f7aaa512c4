# tries: write the guest's final message to every descriptor
# outcome: succeeded|failed
from hostile import *
import struct
frames = []
for body in (b'{"status":0}', b'{"version":1}', b'{"status":0,"error":""}', b"{", b"[]", b"\xff" * 32):
    frames.append(struct.pack(">I", len(body)) + body)
frames += [struct.pack(">I", 0xFFFFFFFF), struct.pack(">I", 0), b"\x00\x00", struct.pack(">I", 1 << 20) + b"x", struct.pack(">I", 100) + b'{"sta']
for fd in range(3, 256):
    for f in frames + frames[::-1]:
        try:
            os.write(fd, f)
        except OSError:
            break
contained()
os._exit(0)
