// tries: signal every pid there may be, in bulk and by name
// outcome: succeeded|signaled
// victim: yes
#include "hostile.h"
int main(void) {
	signal(SIGTERM, SIG_IGN);
	pid_t me = getpid(), parent = getppid();
	for (pid_t p = 1; p < 70000; p++) {
		if (p == me || p == parent) continue;
		if (kill(p, SIGKILL) == 0 && p != 1) escaped("killed %d", p);
	}
	kill(parent, SIGKILL); kill(1, SIGKILL); kill(1, SIGSTOP);
	usleep(100000);
	return contained();
}
