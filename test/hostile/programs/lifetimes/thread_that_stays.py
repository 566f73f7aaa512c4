# tries: be kept alive by a thread when its code has ended
# outcome: timed_out|succeeded
# policy: {"wall": "2s"}
import threading, time
def stay():
    while True:
        try:
            time.sleep(1000)
        except BaseException:
            pass
threading.Thread(target=stay).start()
