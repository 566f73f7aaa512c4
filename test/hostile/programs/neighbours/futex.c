// tries: meet neighbours in the kernel's table of futexes, by pages of the image
// outcome: succeeded
// victim: yes
#include "hostile.h"
#include <linux/futex.h>
int main(void) {
	int fd = open("/etc/passwd", O_RDONLY);
	uint32_t *shared = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	if (shared == MAP_FAILED) return contained();
	REFUSED(mprotect(shared, 4096, PROT_READ | PROT_WRITE));
	struct timespec t = {0, 300000000};
	long woken = syscall(SYS_futex, shared, FUTEX_WAIT, *shared, &t, NULL, 0);
	if (woken == 0) escaped("somebody woke it");
	if (syscall(SYS_futex, shared, FUTEX_WAKE, 1000, NULL, NULL, 0) > 0) escaped("somebody waited");
	return contained();
}
