// tries: take the namespaces of others by the newer calls of a pidfd
// outcome: succeeded
#include "hostile.h"
#include <sys/ioctl.h>
int main(void) {
	for (pid_t p = 1; p < 64; p++) {
		if (p == getpid()) continue;
		int fd = syscall(SYS_pidfd_open, p, 0);
		if (fd < 0) continue;
		for (unsigned n = 1; n <= 10; n++) { // PIDFD_GET_CGROUP_NAMESPACE to PIDFD_GET_UTS_NAMESPACE
			int ns = ioctl(fd, _IO(0xFF, n), 0);
			if (ns >= 0) escaped("namespace %u of process %d", n, p);
		}
		REFUSED(setns(fd, CLONE_NEWNS));
		REFUSED(setns(fd, CLONE_NEWNET | CLONE_NEWIPC));
		REFUSED(setns(fd, CLONE_NEWUSER));
		REFUSED(syscall(SYS_pidfd_getfd, fd, 0, 0));
		close(fd);
	}
	return contained();
}
