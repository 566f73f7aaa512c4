// tries: fault again and again in a handler that changes nothing
// outcome: timed_out
// policy: {"wall": "2s", "cpu_time": "60s"}
#include "hostile.h"
static void again(int _) {}
int main(void) {
	signal(SIGSEGV, again);
	signal(SIGXCPU, again);
	volatile char *p = (char *)8;
	*p = 1;
	return contained();
}
