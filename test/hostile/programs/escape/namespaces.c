// tries: make namespaces, in which it would be root
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP, 0x80};
	for (int i = 0; i < 8; i++) {
		REFUSED(unshare(flags[i]));
		REFUSED(unshare(flags[i] | CLONE_NEWUSER));
		if (flags[i] != 0x80) // of time: to clone this is a signal
			REFUSED(syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0));
	}
	uint64_t args[11] = {CLONE_NEWUSER, 0, 0, 0, SIGCHLD};
	REFUSED(syscall(435, args, sizeof args));
	return contained();
}
