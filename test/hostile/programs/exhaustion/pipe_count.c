// tries: take all the pages of pipes that its user on the host may have, by their number alone
// outcome: succeeded|out_of_memory
#include "hostile.h"
// Worked on 5ee7338.
int main(void) {
	for (int p = 0; p < 25; p++) {
		if (fork() != 0) continue;
		int pair[2];
		while (pipe(pair) == 0) {}
		hold();
		_exit(0);
	}
	while (wait(NULL) > 0) {}
	return contained();
}
