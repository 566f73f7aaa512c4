// tries: take all the pages of pipes that its user on the host may have, so that others' pipes hold next to nothing
// outcome: succeeded|out_of_memory
#include "hostile.h"
// Worked on 5ee7338: all jobs of a cell were one user to the host.
int main(void) {
	for (int p = 0; p < 20; p++) {
		if (fork() != 0) continue;
		for (int i = 0; i < 120; i++) {
			int pair[2];
			if (pipe(pair) < 0) break;
			fcntl(pair[1], F_SETPIPE_SZ, 1 << 20);
		}
		hold();
		_exit(0);
	}
	while (wait(NULL) > 0) {}
	return contained();
}
