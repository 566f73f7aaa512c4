"""The shell of a session: scripts, each of which finds what the one before left.

Every script is a process of its own, so that one that hangs can be killed. At its end it
writes down its directory and its environment, and as a script what else there is: its
variables that are not exported, functions, aliases and options. One that has no end of
that kind (it was killed, replaced by exec, or has a trap of its own for EXIT) leaves
what there was before.

Standard library only, for Python 3.8 and later.
"""

import os

MARK = "ASSAY_SCRIPT"  # a variable that all processes of a script inherit
ROUNDS = 20  # how often processes are looked for that were started while others were killed
SIGKILL, SIGSTOP = 9, 19
MAX_STATE = 8 << 20  # what is more is not kept

# Those that bash makes itself. The rest of BASH_ is its own, too.
OWN = (
    "BASH*|COMP_*|COPROC|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|HOSTNAME|HOSTTYPE|LINENO|MACHTYPE|OLDPWD|OPTARG|OPTIND|OSTYPE|"
    "ASSAY_SCRIPT|PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|_assay_name"
)

# What bash reads first: the script itself begins at its own first line, as messages count them.
# Options are looked at before any is changed, and set after everything else, by a function: one of
# them may be to end at the first error, or to tell of each step.
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
        """A process that runs a script, and the files that its end is written to, for end."""
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
        """Kill a script and all that it started, whatever session or parent they have by now."""
        mark = ("%s=%d" % (MARK, self.scripts)).encode()
        for _ in range(ROUNDS):
            found = _marked(mark, p.pid)
            for number in SIGSTOP, SIGKILL:  # first, so that none starts another meanwhile
                for pid in found:
                    try:
                        os.kill(pid, number)
                    except OSError:
                        pass
            if not found:
                break

    def end(self, files, whole=True):
        """Take over what a script has left in its files, if it came to its end."""
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
    """The leader, the processes that have the mark, and all their descendants, as far as they live."""
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
            pass  # of another program's user, or over
        children.setdefault(int(parent), []).append(pid)
        if state in "ZX":
            dead.add(pid)
        elif pid != own and (pid == leader or mark in environment.split(b"\0")):
            found.append(pid)
    for pid in found:
        found.extend(child for child in children.get(pid, ()) if child != own and child not in found)
    return [pid for pid in found if pid not in dead]


def _read(fd):
    """What was written to a file in memory; None if that is too much."""
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size <= MAX_STATE else None
