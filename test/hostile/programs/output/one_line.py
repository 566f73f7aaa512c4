# tries: write one line that has no end
# outcome: succeeded
# says: xxxx
import os
block = b"x" * 65536
for _ in range(512):
    os.write(1, block)
