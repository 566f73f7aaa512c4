# tries: have the harness report twice, from both sides of a fork
# outcome: succeeded
import os
if os.fork():
    os.wait()
    print("contained")
