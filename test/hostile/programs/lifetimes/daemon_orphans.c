// tries: leave a process behind that keeps forking, so that no kill hits it
// outcome: succeeded
#include "hostile.h"
int main(void) {
	if (fork() == 0) {
		setsid();
		for (;;) if (fork() != 0) _exit(0);
	}
	usleep(100000);
	return contained();
}
