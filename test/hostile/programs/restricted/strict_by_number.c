// tries: find a call beyond the allow-list that does something, by trying every number
// outcome: succeeded|signaled|timed_out
// policy: {"syscalls": "strict", "wall": "5s"}
#include "hostile.h"
int main(void) {
	for (long n = 424; n < 2048; n++) {
		if (n == 434 || n == 436 || n == 437 || n == 439 || n == 441 || n == 449 || n == 452 || n == 424 || n == 435) continue;
		errno = 0;
		if (syscall(n, -1, -1, -1, -1, -1, -1) != -1 || errno != EPERM && errno != ENOSYS) escaped("call %ld: %d", n, errno);
	}
	return contained();
}
