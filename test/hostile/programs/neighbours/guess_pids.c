// tries: guess the host's pids of other jobs
// outcome: succeeded
// victim: yes
#include "hostile.h"
int main(void) {
	for (int p = 2; p < 400000; p++) {
		if (p == getpid()) continue;
		if (getpgid(p) > 0 && kill(p, 0) == 0) escaped("process %d", p);
	}
	return contained();
}
