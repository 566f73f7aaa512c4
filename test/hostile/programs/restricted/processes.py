# tries: start a process where that is forbidden, by every module there is
# outcome: succeeded
# policy: {"subprocesses": false}
from hostile import *
import multiprocessing, pty, subprocess
refused("run", subprocess.run, ["true"])
refused("run in a shell", subprocess.run, "true", shell=True)
refused("forkpty", pty.fork)
refused("spawnv", os.posix_spawn, "/bin/true", ["true"], {})
refused("popen", lambda: os.popen("true").read())
refused("multiprocessing", multiprocessing.Process(target=print).start)
if os.system("true") == 0:
    escaped("system")
contained()
