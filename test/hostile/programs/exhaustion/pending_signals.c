// tries: have the kernel queue signals without end
// outcome: succeeded
#include "hostile.h"
// Worked on 5ee7338: no cell could queue another one.
int main(void) {
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	union sigval v = {0};
	int n = 0;
	while (n < 2000000 && sigqueue(getpid(), SIGRTMIN, v) == 0) n++;
	hold();
	if (n > 4096) escaped("%d signals", n);
	return contained();
}
