// tries: have a traced child make the calls that it may not make itself
// outcome: succeeded|signaled
// gvisor: failed, its kernel checks filters before tracers, so a filter is no wall there
#include "hostile.h"
#include <sys/user.h>
int main(void) {
	pid_t pid = fork();
	if (pid == 0) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (;;) getppid();
	}
	waitpid(pid, NULL, 0);
#ifdef __x86_64__
	struct user_regs_struct r;
	if (ptrace(PTRACE_SYSCALL, pid, 0, 0) == 0 && waitpid(pid, NULL, 0) == pid) {
		ptrace(PTRACE_GETREGS, pid, 0, &r);
		r.orig_rax = SYS_unshare; r.rdi = CLONE_NEWUSER;
		ptrace(PTRACE_SETREGS, pid, 0, &r);
		ptrace(PTRACE_SYSCALL, pid, 0, 0);
		waitpid(pid, NULL, 0);
		ptrace(PTRACE_GETREGS, pid, 0, &r);
		if (r.rax == 0) escaped("unshare through a tracer");
	}
#endif
	kill(pid, SIGKILL);
	return contained();
}
