# tries: have the shell itself use up everything
# outcome: out_of_memory|failed|signaled|timed_out
# policy: {"wall": "10s"}
x=a
while :; do x=$x$x$x; done
