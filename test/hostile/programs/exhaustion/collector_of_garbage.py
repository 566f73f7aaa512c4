# tries: die by its own garbage, when nobody looks any more
# outcome: exception|succeeded|failed|signaled|timed_out|out_of_memory
# policy: {"wall": "3s"}
import gc
class Again:
    def __del__(self):
        Again()
gc.disable()
for _ in range(1000):
    Again()
