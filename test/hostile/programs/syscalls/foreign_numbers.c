// tries: make forbidden calls by the numbers of other architectures
// outcome: succeeded|signaled|failed
#include "hostile.h"
int main(void) {
#ifdef __x86_64__
	REFUSED(syscall(0x40000000 | 272, CLONE_NEWUSER));
	REFUSED(syscall(0x40000000 | 165, "none", "/tmp", "tmpfs", 0, 0));
	int got;
	__asm__ volatile("int $0x80" : "=a"(got) : "a"(310), "b"(CLONE_NEWUSER) : "memory");
	if (got == 0) escaped("unshare of another architecture");
#endif
	return contained();
}
