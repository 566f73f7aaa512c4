# tries: write in many threads while the harness writes its own
# outcome: succeeded|failed|exception
# says: contained
import os, threading
def noise():
    while True:
        for fd in range(3, 32):
            try:
                os.write(fd, b'{"status": 0}\n\x00\x00\x00\x04null')
            except OSError:
                pass
for _ in range(8):
    threading.Thread(target=noise, daemon=True).start()
print("contained")
