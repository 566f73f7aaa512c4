// tries: take all the pseudo-terminals that this host has
// outcome: succeeded
// gvisor: out_of_memory|failed, its kernel has those of its own
#include "hostile.h"
// Worked on 5ee7338: 3,072 were all that unprivileged programs of the host had.
int main(void) {
	int total[2], n = 0, all = 0;
	pipe(total);
	for (int i = 0; i < 20; i++) {
		if (fork() != 0) continue;
		for (n = 0; n < 250 && open("/dev/ptmx", O_RDWR | O_NOCTTY) >= 0; n++) {}
		write(total[1], &n, sizeof n);
		hold();
		_exit(0);
	}
	close(total[1]);
	while (read(total[0], &n, sizeof n) == sizeof n) all += n;
	if (all > 64) escaped("%d terminals", all);
	return contained();
}
