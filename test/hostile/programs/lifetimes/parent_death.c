// tries: be told before it dies, and fork then
// outcome: timed_out
// policy: {"wall": "500ms"}
#include "hostile.h"
static void again(int s) { if (fork() == 0) for (;;) pause(); }
int main(void) {
	signal(SIGTERM, again); signal(SIGUSR1, again); signal(SIGHUP, again);
	prctl(PR_SET_PDEATHSIG, SIGUSR1);
	for (;;) pause();
}
