# tries: refuse to end, by every exception that means the end
# outcome: timed_out
# policy: {"wall": "2s"}
import os, signal, sys, time
for n in range(1, 65):
    try:
        signal.signal(n, lambda *a: None)
    except (OSError, ValueError):
        pass
sys.exit = os._exit = quit = exit = lambda *a: None
def stay(*a):
    while True:
        try:
            time.sleep(0.01)
        except BaseException:
            pass
sys.excepthook = sys.unraisablehook = stay
stay()
