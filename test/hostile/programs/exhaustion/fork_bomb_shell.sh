# tries: run the classic fork bomb of the shell
# outcome: process_limit|failed|timed_out|succeeded|out_of_memory
# policy: {"wall": "3s"}
b() { b | b & }; b
sleep 10
