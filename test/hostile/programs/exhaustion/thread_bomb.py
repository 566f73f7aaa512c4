# tries: start threads without end
# outcome: process_limit|exception
import threading, time
while True:
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
