"""The shell of a session: scripts, each of which finds what the one before left.

Every script is a process of its own, so that one that hangs can be killed. At its end it
writes down its directory and its environment, and as a script what else there is: its
variables that are not exported, functions, aliases and options. One that has no end of
that kind (it was killed, replaced by exec, or has a trap of its own for EXIT) leaves
what there was before.

Standard library only, for Python 3.8 and later.
"""

import os

MAX_STATE = 8 << 20  # what is more is not kept

# Those that bash makes itself. The rest of BASH_ is its own, too.
OWN = (
    "BASH*|COMP_*|COPROC|DIRSTACK|EPOCH*|EUID|FUNCNAME|GROUPS|HISTCMD|HOSTNAME|HOSTTYPE|LINENO|MACHTYPE|OLDPWD|OPTARG|OPTIND|OSTYPE|"
    "PIPESTATUS|PPID|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_|_assay_name"
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
        if state is not None:
            self.state = state


def _read(fd):
    """What was written to a file in memory; None if that is too much."""
    size = os.fstat(fd).st_size
    return os.pread(fd, size, 0) if size <= MAX_STATE else None
