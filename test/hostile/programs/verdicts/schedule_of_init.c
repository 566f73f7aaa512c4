// tries: have process 1 wait for everybody else, on one processor, at its worst priority; it never could: the kernel looks at the capabilities of process 1
// outcome: succeeded
#include "hostile.h"

int main(void) {
	struct sched_param param = {0};
	uint32_t attr[14] = {sizeof attr, 5};
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	long high = 1L << 32 | 1;
	REFUSED(syscall(SYS_sched_setaffinity, 1, sizeof one, &one));
	REFUSED(syscall(SYS_sched_setaffinity, high, sizeof one, &one));
	REFUSED(syscall(SYS_sched_setscheduler, 1, 5, &param));
	REFUSED(syscall(SYS_sched_setparam, 1, &param));
	REFUSED(syscall(SYS_sched_setattr, 1, attr, 0));
	REFUSED(syscall(SYS_setpriority, PRIO_PROCESS, 1, 19));
	REFUSED(syscall(SYS_setpriority, PRIO_PROCESS, high, 19));
	REFUSED(syscall(SYS_ioprio_set, 1, 1, 3 << 13));
	if (sched_setaffinity(0, sizeof one, &one) < 0 && errno == EPERM)
		escaped("even its own are refused");
	return contained();
}
