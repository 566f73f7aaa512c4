// tries: raise every limit that it was given
// outcome: succeeded
// gvisor: failed, its limits are numbers of its own kernel, within those of the container
#include "hostile.h"
int main(void) {
	for (int what = 0; what < RLIM_NLIMITS; what++) {
		struct rlimit r;
		if (getrlimit(what, &r)) continue;
		if (r.rlim_max == RLIM_INFINITY) continue;
		struct rlimit more = {r.rlim_max + 1, r.rlim_max + 1}, all = {RLIM_INFINITY, RLIM_INFINITY};
		REFUSED(setrlimit(what, &more));
		REFUSED(setrlimit(what, &all));
		REFUSED(prlimit(0, what, &all, NULL));
		REFUSED(prlimit(getpid(), what, &all, NULL));
	}
	return contained();
}
