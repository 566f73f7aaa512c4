# tries: make more files than it may
# outcome: disk_limit
# says: No space left
for n in range(100000):
    open("/workspace/%d" % n, "w").close()
