// tries: find a call that the filter forgot, by trying every number with nothing
// outcome: succeeded|signaled|failed|timed_out
// policy: {"wall": "3s"}
#include "hostile.h"
#include <sys/user.h>
int main(void) {
	for (long n = 424; n < 1024; n++) {
		if (fork() == 0) {
			alarm(1);
			syscall(n, -1, -1, -1, -1, -1, -1);
			_exit(0);
		}
		wait(NULL);
	}
	return contained();
}
