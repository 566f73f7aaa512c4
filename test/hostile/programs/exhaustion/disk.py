# tries: fill its disk
# outcome: disk_limit
# says: No space left
with open("/workspace/full", "wb") as f:
    while True:
        f.write(bytes(1 << 20))
