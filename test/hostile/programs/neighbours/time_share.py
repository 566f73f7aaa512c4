# tries: take the time of the job beside it
# outcome: timed_out
# policy: {"cpu_time": "2s", "wall": "5s", "cpu": 2}
# victim: yes
import os
for _ in range(16):
    if os.fork() == 0: break
while True: pass
