// tries: get ahead of everybody else by priority
// outcome: succeeded
// gvisor: failed, a priority among its own processes only
#include "hostile.h"
int main(void) {
	struct sched_param p = {1};
	REFUSED(setpriority(PRIO_PROCESS, 0, -20));
	REFUSED(sched_setscheduler(0, SCHED_FIFO, &p));
	REFUSED(sched_setscheduler(0, SCHED_RR, &p));
	return contained();
}
