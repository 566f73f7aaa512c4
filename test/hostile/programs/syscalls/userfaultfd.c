// tries: stall the kernel in page faults of its own making
// outcome: succeeded
#include "hostile.h"
int main(void) {
	REFUSED(syscall(SYS_userfaultfd, 0));
	REFUSED(syscall(SYS_userfaultfd, 1));
	REFUSED(open("/dev/userfaultfd", O_RDWR));
	return contained();
}
