// tries: read and write the memory of process 1 and of its parent
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char room[64];
	for (int p = 1; p < 100; p++) {
		if (p == getpid()) continue;
		for (uintptr_t at = 0x400000; at < 0x500000; at += 0x10000) {
			struct iovec here = {room, sizeof room}, there = {(void *)at, sizeof room};
			REFUSED(process_vm_readv(p, &here, 1, &there, 1, 0));
			REFUSED(process_vm_writev(p, &here, 1, &there, 1, 0));
		}
	}
	return contained();
}
