// tries: take all the bytes of POSIX message queues that this host's root has
// outcome: succeeded
#include "hostile.h"
// Worked on 5ee7338.
int main(void) {
	struct { long flags, maxmsg, msgsize, curmsgs, pad[4]; } attr = {0, 10, 8192};
	int n = 0;
	for (int i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof name, "q%d", i);
		if (syscall(SYS_mq_open, name, O_CREAT | O_RDWR, 0600, &attr) >= 0) n++;
	}
	hold();
	if (n > 0) escaped("%d queues", n);
	return contained();
}
