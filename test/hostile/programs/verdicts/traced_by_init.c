// tries: have process 1 trace it, so that a stop is taken for its end; worked on 5ee7338: it was killed for it
// outcome: timed_out
// policy: {"wall": "2s"}
#include "hostile.h"

int main(void) {
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	raise(SIGSTOP);
	return 0;
}
