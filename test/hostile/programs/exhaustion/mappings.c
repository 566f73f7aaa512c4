// tries: make mappings without end
// outcome: succeeded|out_of_memory
// gvisor: signaled, its kernel ends it
#include "hostile.h"
int main(void) {
	int n = 0;
	while (n < 200000 && mmap(NULL, 4096, n % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) n++;
	if (n >= 200000) escaped("%d mappings", n);
	return contained();
}
