# tries: overflow the stack of the interpreter itself
# outcome: signaled|exception|out_of_memory|failed|timed_out
# policy: {"wall": "10s", "memory": "256Mi"}
import sys
sys.setrecursionlimit(1 << 30)
class A:
    def __getattr__(self, name):
        return getattr(self, name + "x")
try:
    A().x
except (RecursionError, MemoryError):
    pass
x = []
for _ in range(1 << 20):
    x = [x]
repr(x)
