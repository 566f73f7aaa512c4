// tries: trace process 1 and every other process
// outcome: succeeded
#include "hostile.h"
int main(void) {
	for (int p = 1; p < 100; p++) {
		if (p == getpid()) continue;
		REFUSED(ptrace(PTRACE_ATTACH, p, 0, 0));
		REFUSED(ptrace(PTRACE_SEIZE, p, 0, 0));
	}
	return contained();
}
