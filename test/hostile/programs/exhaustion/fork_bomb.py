# tries: fork without end
# outcome: process_limit|failed|timed_out
# policy: {"wall": "3s"}
import os
while True:
    os.fork()
