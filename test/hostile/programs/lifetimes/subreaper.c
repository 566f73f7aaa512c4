// tries: collect orphans itself, so that process 1 never sees them
// outcome: succeeded
#include "hostile.h"
int main(void) {
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (fork() == 0) { if (fork() == 0) for (;;) pause(); _exit(0); }
	usleep(50000);
	return contained();
}
