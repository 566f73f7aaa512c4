# tries: have a million variables, of names that are no text
# outcome: succeeded|exception
# policy: {"memory": "256Mi"}
# says: contained
g = globals()
for n in range(200000):
    g["v%d" % n] = n
for odd in "\ud800", "\x00", "\u202e", "'", "\n", "x" * 100000:
    g[odd] = odd
print("contained")
