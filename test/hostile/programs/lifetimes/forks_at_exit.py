# tries: fork again in each process that ends
# outcome: succeeded|timed_out|process_limit
# policy: {"wall": "3s", "processes": 16}
import atexit, os, sys
def again():
    if os.fork() == 0:
        atexit.register(again)
        sys.exit()
atexit.register(again)
