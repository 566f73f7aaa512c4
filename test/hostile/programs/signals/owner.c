// tries: have the kernel send signals for it, as the owner of a descriptor
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int p[2];
	pipe(p);
	fcntl(p[0], F_SETSIG, SIGKILL);
	fcntl(p[0], F_SETOWN, 1);
	fcntl(p[0], F_SETFL, O_ASYNC | O_NONBLOCK);
	write(p[1], "x", 1);
	usleep(100000);
	return contained();
}
