# tries: have the collector walk thousands of directories for nothing
# outcome: succeeded
# policy: {"artifacts": {"paths": ["/workspace/d/**"], "max_bytes": "1Mi", "max_files": 50}}
from hostile import *
made = 0
for a in range(20):
    for b in range(20):
        try:
            os.makedirs("/workspace/d/%d/%d" % (a, b))
            made += 1
        except OSError:
            break
contained()
