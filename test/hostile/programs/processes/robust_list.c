// tries: have the kernel read the lists of locks of others for it
// outcome: succeeded
// gvisor: failed, its kernel has no such lists, and says that they are empty
#include "hostile.h"
int main(void) {
	for (int pid = 1; pid < 64; pid++) {
		if (pid == getpid()) continue;
		void *head = NULL;
		size_t size = 0;
		REFUSED(syscall(SYS_get_robust_list, pid, &head, &size));
	}
	return contained();
}
