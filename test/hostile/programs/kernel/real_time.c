// tries: be scheduled before everything else on the machine
// outcome: succeeded
// gvisor: failed, priorities among its own processes only
#include "hostile.h"
struct attr { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t runtime, deadline, period; };
int main(void) {
	struct sched_param p = {1};
	REFUSED(sched_setscheduler(0, SCHED_FIFO, &p));
	REFUSED(sched_setscheduler(0, SCHED_RR, &p));
	struct attr a = {48, 6 /* deadline */, 0, 0, 0, 10000000, 20000000, 20000000};
	REFUSED(syscall(SYS_sched_setattr, 0, &a, 0));
	REFUSED(nice(-5));
	REFUSED(syscall(SYS_ioprio_set, 1, 0, (1 << 13) | 0));
	REFUSED(sched_setscheduler(1, SCHED_IDLE, &(struct sched_param){0}));
	return contained();
}
