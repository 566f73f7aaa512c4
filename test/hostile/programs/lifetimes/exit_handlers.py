# tries: hang at exit, in handlers, threads and finalizers
# outcome: timed_out
# policy: {"wall": "1s"}
import atexit, threading, time
class Last:
    def __del__(self):
        while True: time.sleep(1)
keep = Last()
atexit.register(time.sleep, 600)
threading.Thread(target=time.sleep, args=(600,)).start()
