# tries: flood both streams from many processes, until its time is over
# outcome: timed_out
# policy: {"wall": "1s"}
for i in 1 2 3 4 5 6 7 8; do yes "$i" & yes "$i" >&2 & done
wait
