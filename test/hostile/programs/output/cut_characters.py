# tries: have text cut in the middle of characters, over and over
# outcome: succeeded
import os
for n in range(1, 200):
    os.write(1, ("€" * n).encode()[:-1] + b"\xf0\x9f" + b"\xed\xa0\x80" + b"\x00\xff")
    os.write(2, b"\xe2\x82")
os.write(1, b"\ncontained\n")
