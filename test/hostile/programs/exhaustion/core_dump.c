// tries: leave a core dump, or have the host's handler take it
// outcome: signaled
// policy: {"artifacts": {"paths": ["/workspace/core*"]}}
#include "hostile.h"
int main(void) {
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	if (setrlimit(RLIMIT_CORE, &all) == 0) escaped("core dumps are unlimited");
	prctl(PR_SET_DUMPABLE, 1);
	abort();
}
