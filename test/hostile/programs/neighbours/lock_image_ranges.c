// tries: tell a job of another tenant something by locks of ranges on devices that both have
// outcome: succeeded
// victim: other
// alone: yes
#include "hostile.h"
int main(void) {
	const char *names[] = {"/dev/null", "/dev/full", "/dev/zero"};
	for (int i = 0; i < 3; i++) {
		int fd = open(names[i], O_RDWR);
		struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
		if (fcntl(fd, F_OFD_SETLK, &l) < 0 && (errno == EAGAIN || errno == EACCES)) escaped("somebody has a lock on %s", names[i]);
	}
	usleep(3000000);
	return contained();
}
