# tries: have the host's memory filled with files that it reads
# outcome: succeeded|timed_out
# policy: {"memory": "48Mi", "wall": "5s"}
from hostile import *
for directory, _, files in os.walk("/usr/lib"):
    for f in files:
        try:
            with open(os.path.join(directory, f), "rb") as r:
                while r.read(1 << 20):
                    pass
        except OSError:
            pass
contained()
