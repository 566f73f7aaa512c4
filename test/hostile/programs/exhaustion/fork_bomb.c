// tries: fork without end, each child a session of its own that ignores signals
// outcome: process_limit|timed_out|failed|out_of_memory
// policy: {"wall": "3s"}
#include "hostile.h"
// The kernel refuses a fork late: what it made until then is charged until it is freed.
int main(void) {
	for (int s = 1; s < 32; s++) signal(s, SIG_IGN);
	for (;;) if (fork() == 0) setsid();
}
