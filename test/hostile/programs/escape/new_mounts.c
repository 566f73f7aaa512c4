// tries: mount by the newer calls, which older filters forget
// outcome: succeeded
#include "hostile.h"
int main(void) {
	REFUSED(syscall(428, AT_FDCWD, "/", 1 | AT_RECURSIVE));
	REFUSED(syscall(429, AT_FDCWD, "/proc", AT_FDCWD, "/tmp", 0));
	REFUSED(syscall(430, "tmpfs", 0));
	REFUSED(syscall(431, 0, 0, NULL, NULL, 0));
	REFUSED(syscall(432, 0, 0, 0));
	REFUSED(syscall(433, AT_FDCWD, "/", 0));
	REFUSED(syscall(442, AT_FDCWD, "/", 0, NULL, 0));
	return contained();
}
