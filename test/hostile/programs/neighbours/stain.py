# tries: leave a stain in every place for the next job
# outcome: succeeded
from hostile import *
for place in "/tmp", "/workspace", "/dev/shm", "/var/tmp", "/run", "/dev", "/dev/pts", "/":
    for name in "stain", ".stain", "sitecustomize.py", "usercustomize.py", "\xff\n":
        try:
            open(place + "/" + name, "w").write("x")
        except OSError:
            pass
os.umask(0o777)
call("msgget", 4711, 0o1666)
os.environ["STAIN"] = "x"
contained()
