# tries: flood its output
# outcome: succeeded
# says: cut
import os
os.write(1, b"cut")
line = b"x" * 65536
for _ in range(2000):
    os.write(1, line)
