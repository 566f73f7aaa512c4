// tries: read the answer from a descriptor that it was not given, or from the other ends of its own
// outcome: failed
#include "cheat.h"
int main(void) {
	static char buf[1 << 20];
	int found = 0;
	for (int fd = 3; fd < 4096; fd++) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		lseek(fd, 0, SEEK_SET);
		ssize_t n = read(fd, buf, sizeof buf);
		if (n > 0) found += scan(buf, n);
	}
	for (int fd = 0; fd < 3; fd++) { // a pipe that is opened anew has both ends
		char path[64];
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		int other = open(path, O_RDWR | O_NONBLOCK);
		ssize_t n = other < 0 ? -1 : read(other, buf, sizeof buf);
		if (n > 0) found += scan(buf, n);
	}
	if (!found) puts("nothing");
}
