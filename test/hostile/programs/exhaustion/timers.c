// tries: have the kernel keep timers without end
// outcome: succeeded
// gvisor: out_of_memory, its kernel keeps them, within its memory
#include "hostile.h"
#include <time.h>
// Worked on 5ee7338: 96,365 timers were all that this host's root had, and no cell could make one.
int main(void) {
	struct sigevent e = {.sigev_notify = SIGEV_NONE};
	timer_t t;
	int n = 0;
	while (n < 2000000 && timer_create(CLOCK_MONOTONIC, &e, &t) == 0) n++;
	hold();
	if (n > 4096) escaped("%d timers", n);
	return contained();
}
