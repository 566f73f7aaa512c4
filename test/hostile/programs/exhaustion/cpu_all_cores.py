# tries: burn every core with every process it may have
# outcome: timed_out
# policy: {"cpu_time": "1s"}
import os
for _ in range(20):
    if os.fork() == 0:
        while True:
            pass
while True:
    pass
