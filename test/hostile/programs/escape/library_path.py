# tries: leave modules and startup files where the next interpreter looks for them
# outcome: succeeded
from hostile import *
import site, sys
os.makedirs(os.path.expanduser("~/.local/lib/python3/site-packages"), exist_ok=True)
open(os.path.expanduser("~/.local/lib/python3/site-packages/sitecustomize.py"), "w").write("print('owned')")
for d in sys.path + site.getsitepackages() + ["/etc/ld.so.preload", "/etc/ld.so.conf.d", "/usr/local/lib"]:
    if d and not d.startswith("/workspace"):
        refused(d, open, d + "/sitecustomize.py", "w")
open("/workspace/json.py", "w").write("print('owned')")
open("/tmp/json.py", "w").write("print('owned')")
contained()
