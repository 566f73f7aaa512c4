// tries: measure the kernel and other processes
// outcome: succeeded
#include "hostile.h"
int main(void) {
	uint32_t attr[32] = {1, 128};
	REFUSED(syscall(SYS_perf_event_open, attr, 0, -1, -1, 0));
	REFUSED(syscall(SYS_perf_event_open, attr, -1, 0, -1, 0));
	REFUSED(syscall(SYS_perf_event_open, attr, 1, -1, -1, 0));
	return contained();
}
