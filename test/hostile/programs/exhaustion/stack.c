// tries: recurse without end on an unlimited stack
// outcome: signaled|out_of_memory
#include "hostile.h"
static int down(volatile char *above) { char room[65536]; memset(room, above[0], sizeof room); return down(room) + room[9]; }
int main(void) {
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_STACK, &all);
	char c = 1;
	return down(&c);
}
