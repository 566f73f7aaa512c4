// tries: end process 1 by a limit of its time, from a program that it started; worked on 5ee7338 and was our failure
// outcome: succeeded
#include "hostile.h"

int main(void) {
	struct rlimit none = {0, 0}, few = {3, 3};
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_CPU, &none, NULL));
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &few, NULL));
	REFUSED(syscall(SYS_prlimit64, 1L << 32 | 1, RLIMIT_NOFILE, &few, NULL));
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_NPROC, &none, NULL));
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_AS, &none, NULL));
	REFUSED(syscall(SYS_prlimit64, 1, RLIMIT_STACK, &none, NULL));
	return contained();
}
