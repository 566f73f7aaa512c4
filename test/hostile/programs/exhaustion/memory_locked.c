// tries: lock memory, so that it cannot be taken back
// outcome: succeeded|out_of_memory
#include "hostile.h"
int main(void) {
	struct rlimit more = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_MEMLOCK, &more);
	size_t n = 256UL << 20;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_LOCKED, -1, 0);
	if (p != MAP_FAILED && mlock(p, n) == 0) escaped("locked %zu bytes", n);
	return contained();
}
