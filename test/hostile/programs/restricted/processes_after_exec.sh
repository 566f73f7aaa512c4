# tries: get rid of the ban on processes by becoming another program
# outcome: succeeded
# policy: {"subprocesses": false}
exec python3 -c '
import os, sys
sys.path.insert(0, "/workspace")
try:
    os.fork()
    print("ESCAPED: fork")
except OSError:
    print("contained")
'
