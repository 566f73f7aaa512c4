# tries: use more memory than it may
# outcome: out_of_memory
keep = []
while True:
    keep.append(bytearray(8 << 20))
