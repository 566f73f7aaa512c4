// tries: make a child of whoever started it, which has not asked for one; worked on 5ee7338, to no harm: process 1 buries whatever ends
// outcome: succeeded
// victim: yes
#include "hostile.h"

int main(void) {
	pid_t me = getpid();
	for (int i = 0; i < 4; i++) {
		long flags[] = {0x8000 | SIGCHLD, 0x8000, 0x8000 | 0x4000 | 0x100 | SIGCHLD, 0x8000 | SIGTERM};
		long child = syscall(SYS_clone, flags[i], 0, 0, 0, 0);
		if (child == 0 && getpid() != me)
			_exit(0);
		if (child >= 0)
			escaped("a child of its parent, by %#lx", flags[i]);
	}
	return contained();
}
