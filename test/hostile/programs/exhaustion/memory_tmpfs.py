# tries: keep memory as files of a tmpfs, and use the rest as well
# outcome: out_of_memory|disk_limit
# policy: {"memory": "48Mi", "disk": "64Mi"}
with open("/tmp/full", "wb") as f:
    for _ in range(60):
        f.write(bytes(1 << 20))
keep = bytearray(60 << 20)
