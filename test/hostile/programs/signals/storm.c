// tries: have timers interrupt it without a pause, and the machine with it
// outcome: succeeded|timed_out
// policy: {"wall": "3s"}
// victim: yes
#include "hostile.h"
#include <sys/time.h>
#include <time.h>
static volatile long n;
static void count(int _) { n++; }
int main(void) {
	struct sigaction a = {.sa_handler = count};
	sigaction(SIGALRM, &a, NULL), sigaction(SIGPROF, &a, NULL), sigaction(SIGVTALRM, &a, NULL);
	struct itimerval v = {{0, 1}, {0, 1}};
	setitimer(ITIMER_REAL, &v, NULL), setitimer(ITIMER_PROF, &v, NULL), setitimer(ITIMER_VIRTUAL, &v, NULL);
	time_t end = time(NULL) + 2;
	while (time(NULL) < end);
	setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
	return contained();
}
