// tries: outlive its time by ignoring every signal
// outcome: timed_out
// policy: {"wall": "500ms"}
#include "hostile.h"
int main(void) {
	sigset_t all;
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int s = 1; s < 65; s++) signal(s, SIG_IGN);
	for (;;) pause();
}
