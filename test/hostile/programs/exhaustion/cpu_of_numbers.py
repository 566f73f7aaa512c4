# tries: burn its time with one number
# outcome: timed_out|out_of_memory|exception
# policy: {"wall": "2s"}
import sys
sys.set_int_max_str_digits(0)
n = 7
for _ in range(40):
    n = n * n
str(n)
