# tries: have one expression need more memory than there is
# outcome: succeeded|out_of_memory
for f in lambda: "%0999999999d" % 1, lambda: "x" * (1 << 40), lambda: bytearray(1 << 40), lambda: 1 << (1 << 40), lambda: [0] * (1 << 36), lambda: list(range(1 << 36)):
    try:
        f()
    except (MemoryError, OverflowError):
        pass
print("contained")
