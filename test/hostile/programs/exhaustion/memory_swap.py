# tries: get by with swap where memory has run out
# outcome: out_of_memory
# policy: {"memory": "48Mi"}
import mmap
m = mmap.mmap(-1, 512 << 20)
for i in range(0, 512 << 20, 4096):
    m[i] = 1
