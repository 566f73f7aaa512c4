# tries: become another program in the harness's place
# outcome: failed
# says: contained
import os
os.execv("/bin/sh", ["sh", "-c", "ls -l /proc/self/fd | grep -c socket: | grep -qx 0 && echo contained; exit 7"])
