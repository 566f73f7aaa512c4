// tries: have the process that waits for it say that it has succeeded
// outcome: failed|signaled
#include "cheat.h"
int main(void) {
	puts("nothing");
	fflush(stdout);
	int pids[] = {getppid(), 1, getppid() - 1, getpid() - 1};
	for (size_t i = 0; i < 4; i++) {
		if (pids[i] <= 0 || pids[i] == getpid()) continue;
		long data = 0;
		struct iovec mine = {&data, 8}, theirs = {(void *)0x400000, 8};
		if (ptrace(PTRACE_SEIZE, pids[i], 0, 0) == 0 || ptrace(PTRACE_ATTACH, pids[i], 0, 0) == 0) puts("ESCAPED: traces");
		if (process_vm_writev(pids[i], &mine, 1, &theirs, 1, 0) > 0) puts("ESCAPED: writes memory");
		char path[64];
		snprintf(path, sizeof path, "/proc/%d/mem", pids[i]);
		if (open(path, O_RDWR) >= 0) puts("ESCAPED: opens memory");
	}
	fflush(stdout);
	_exit(1);
}
