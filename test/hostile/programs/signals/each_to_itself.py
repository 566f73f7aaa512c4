# tries: end its children by every signal, and get a wrong status from one of them
# outcome: succeeded
from hostile import *
import signal
for n in range(1, 65):
    if n in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT, signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, 32, 33):
        continue
    child = os.fork()
    if child == 0:
        try:
            signal.signal(n, signal.SIG_DFL)
        except (OSError, ValueError):
            pass
        os.kill(os.getpid(), n)
        os._exit(9)
    _, status = os.waitpid(child, 0)
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != n:
        escaped("signal %d: status %d" % (n, status))
contained()
