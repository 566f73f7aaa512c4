// tries: make the streams that it shares with the worker wait, tell of signals, or be of another size
// outcome: succeeded
// victim: yes
#include "hostile.h"

int main(void) {
	for (int fd = 0; fd < 8; fd++) {
		fcntl(fd, F_SETFL, O_NONBLOCK | O_ASYNC | O_APPEND | O_DIRECT);
		fcntl(fd, F_SETOWN, 1);
		fcntl(fd, F_SETOWN, -1);
		fcntl(fd, F_SETSIG, SIGKILL);
		fcntl(fd, F_SETPIPE_SZ, 4096);
		shutdown(fd, SHUT_RD);
		fcntl(fd, F_SETLEASE, F_RDLCK);
	}
	for (int fd = 0; fd < 3; fd++)
		fcntl(fd, F_SETFL, 0);
	return contained();
}
