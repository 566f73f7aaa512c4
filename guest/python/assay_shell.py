"""The shell of a session: each script continues with the state of the previous one.

Every script is its own process, so that a hanging one can be killed. At its end it saves its directory and
environment, and its other state as a script: unexported variables, functions, aliases and options. A script without
such an end keeps the previous state: it was killed, replaced by exec, or has its own trap for EXIT.

Standard library only, for Python 3.8 and later.
"""

import os

MARK = "ASSAY_SCRIPT"  # a variable that all processes of a script inherit
ROUNDS = 20  # rounds of searching for processes that were started during the kills
SIGKILL, SIGSTOP = 9, 19
MAX_STATE = 8 << 20  # larger state is not kept

# Variables that bash sets itself. The rest of BASH_ is its own, too.
OWN = (
    "BASH*|COMP_*|COPROC|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|HOSTNAME|HOSTTYPE|LINENO|MACHTYPE|OLDPWD|OPTARG|OPTIND|OSTYPE|"
    "ASSAY_SCRIPT|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|_assay_name"
)

# The prologue that bash reads first; the script itself keeps its line numbers in messages. The state of options is
# saved before they are changed, and restored last by a function, because an option may end the script at the first
# error or trace each step.
BEGIN = """unset BASH_ENV; exec %(begin)d<&-; trap '{ { echo "_assay_options() {"
echo "unset -f _assay_options"; set +o; echo "}"; set +xveu
for _assay_name in $(compgen -A variable); do case $_assay_name in %(own)s) ;; *) declare -p "$_assay_name";; esac; done
declare -f; shopt -p; alias -p; echo _assay_options; } >&%(state)d; pwd >&%(place)d; env -0 >&%(place)d; } 2>/dev/null' EXIT
"""


class Shell:
    def __init__(self):
        self.directory, self.environment = None, None
        self.scripts = 0
        self.state = b""

    def start(self, command):
        """Return a process that runs a script, and the files for its final state, for end."""
        import subprocess

        fds = {name: os.memfd_create(name) for name in ("place", "state", "begin")}
        files = fds["place"], fds["state"]
        try:
            with open(os.dup(fds["begin"]), "wb") as f:
                f.write((BEGIN % dict(fds, own=OWN)).encode() + self.state)
            env = dict(os.environ if self.environment is None else self.environment)
            self.scripts += 1
            env[MARK] = str(self.scripts)
            env["BASH_ENV"] = "/proc/self/fd/%d" % fds["begin"]
            p = subprocess.Popen(
                ["bash", "-c", command], env=env, cwd=self.directory, pass_fds=tuple(fds.values()), stdin=subprocess.DEVNULL, start_new_session=True
            )
        except BaseException:
            self.end(files, False)
            raise
        finally:
            os.close(fds["begin"])
        return p, files

    def kill(self, p):
        """Kill a script and all processes that it started, in any session and with any parent."""
        mark = ("%s=%d" % (MARK, self.scripts)).encode()
        for _ in range(ROUNDS):
            found = _marked(mark, p.pid)
            for number in SIGSTOP, SIGKILL:  # stop all first, so that none starts another
                for pid in found:
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            if not found:
                break

    def end(self, files, whole=True):
        """Take over a script's state from its files, if it reached its end."""
        if whole:
            self.keep(*(_read(fd) for fd in files))
        for fd in files:
            os.close(fd)

    def keep(self, place, state):
        directory, _, rest = (place or b"").partition(b"\n")
        if not rest:
            return
        self.directory = os.fsdecode(directory)
        pairs = [e.partition(b"=") for e in rest.split(b"\0") if b"=" in e]
        self.environment = {os.fsdecode(k): os.fsdecode(v) for k, _, v in pairs}
        self.environment.pop(MARK, None)
        if state is not None:
            self.state = state


def _marked(mark, leader):
    """Return the leader, the processes with the mark, and all their living descendants."""
    own, found, children, dead = os.getpid(), [], {}, set()
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        pid, environment = int(name), b""
        try:
            with open("/proc/%s/stat" % name) as f:
                state, parent = f.read().rpartition(")")[2].split()[:2]
        except (OSError, ValueError):
            continue
        try:
            with open("/proc/%s/environ" % name, "rb") as f:
                environment = f.read()
        except OSError:
            pass  # of another program's user, or gone
        children.setdefault(int(parent), []).append(pid)
        if state in "ZX":
            dead.add(pid)
        elif pid != own and (pid == leader or mark in environment.split(b"\0")):
            found.append(pid)
    for pid in found:
        found.extend(child for child in children.get(pid, ()) if child != own and child not in found)
    return [pid for pid in found if pid not in dead]


def _read(fd):
    """Return the content of a file in memory, or None if it is too large."""
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size <= MAX_STATE else None
