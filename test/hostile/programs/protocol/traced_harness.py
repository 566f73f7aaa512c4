# tries: trace the harness after its own end
# outcome: succeeded|failed|exception
# says: contained
import os, sys, threading
def watch(frame, event, arg):
    os.write(1, b".")
    if event == "return":
        raise SystemExit(0)
    return watch
os.write(1, b"contained\n")
f = sys._getframe()
while f:
    f.f_trace = watch
    f = f.f_back
sys.settrace(watch)
sys.setprofile(watch)
threading.settrace(watch)
