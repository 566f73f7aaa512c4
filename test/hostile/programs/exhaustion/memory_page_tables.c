// tries: use memory only for page tables, a page in each two megabytes
// outcome: out_of_memory|signaled|succeeded
// gvisor: timed_out|out_of_memory, its kernel is slower at it
// policy: {"wall": "20s", "cpu_time": "10s"}
#include "hostile.h"
int main(void) {
	struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
	setrlimit(RLIMIT_AS, &all);
	size_t n = 200UL << 30;
	char *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED) return contained();
	volatile char sum = 0;
	for (size_t i = 0; i < n; i += 2UL << 20) sum += p[i];
	escaped("tables for %zu bytes", n);
}
