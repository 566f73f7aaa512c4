# tries: unpack a small file into data larger than its memory
# outcome: exception|out_of_memory
import bz2, zlib
bomb = zlib.compress(b"\0" * (64 << 20), 9)
keep = []
while True:
    keep.append(zlib.decompress(bomb))
