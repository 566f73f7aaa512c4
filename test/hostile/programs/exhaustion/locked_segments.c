// tries: lock shared memory, which is counted for whoever made the namespaces
// outcome: succeeded|out_of_memory
// gvisor: failed, what its kernel calls locked is memory of the job's like any other
#include "hostile.h"
#include <sys/shm.h>
int main(void) {
	long long locked = 0;
	for (int i = 0; i < 100; i++) {
		int s = shmget(IPC_PRIVATE, 1 << 20, 0600);
		if (s < 0 || shmctl(s, SHM_LOCK, NULL) < 0) break;
		locked += 1 << 20;
	}
	hold();
	if (locked > 8 << 20) escaped("%lld MiB locked", locked >> 20);
	return contained();
}
