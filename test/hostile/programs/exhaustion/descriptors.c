// tries: open more files than it may, and raise the limit first
// outcome: succeeded
#include "hostile.h"
int main(void) {
	struct rlimit more = {100000, 100000};
	REFUSED(setrlimit(RLIMIT_NOFILE, &more));
	int n = 0;
	while (open("/dev/null", O_RDONLY) >= 0) if (++n > 256) escaped("%d descriptors", n);
	return contained();
}
