# tries: have the job beside it killed for the memory that it uses itself
# outcome: out_of_memory
# victim: yes
keep = []
while True:
    keep.append(bytearray(1 << 20))
