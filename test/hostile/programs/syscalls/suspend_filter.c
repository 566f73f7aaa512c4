// tries: have its filter suspended while it traces
// outcome: succeeded
// gvisor: failed, its kernel knows no such option
#include "hostile.h"
int main(void) {
	pid_t child = fork();
	if (child == 0) { raise(SIGSTOP); _exit(mount("none", "/tmp", "tmpfs", 0, NULL) == 0 ? 7 : 0); }
	int status;
	waitpid(child, &status, WUNTRACED);
	if (ptrace(PTRACE_SEIZE, child, 0, 0) == 0) {
		REFUSED(ptrace(PTRACE_SETOPTIONS, child, 0, 1 << 21 /* PTRACE_O_SUSPEND_SECCOMP */));
		char filter[64];
		REFUSED(ptrace(0x420c /* PTRACE_SECCOMP_GET_FILTER */, child, 0, filter));
		ptrace(PTRACE_DETACH, child, 0, 0);
	}
	REFUSED(ptrace(PTRACE_SEIZE, child, 0, 1 << 21));
	kill(child, SIGCONT);
	waitpid(child, &status, 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 7) escaped("a mount");
	return contained();
}
