# tries: fork without end
# outcome: process_limit|failed|timed_out|out_of_memory
# policy: {"wall": "3s"}
import os
while True:
    os.fork()
