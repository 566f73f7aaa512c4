# tries: be killed by its own garbage, after the supervision has ended
# outcome: exception|succeeded|failed|signaled|timed_out|out_of_memory
# policy: {"wall": "3s"}
import gc
class Again:
    def __del__(self):
        Again()
gc.disable()
for _ in range(1000):
    Again()
