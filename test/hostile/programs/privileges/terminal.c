// tries: type into the terminal of whoever watches
// outcome: succeeded
#include "hostile.h"
#include <sys/ioctl.h>
int main(void) {
	for (int fd = 0; fd < 10; fd++) REFUSED(ioctl(fd, TIOCSTI, "x"));
	REFUSED(open("/dev/tty", O_RDWR));
	REFUSED(open("/dev/console", O_RDWR));
	REFUSED(open("/dev/tty1", O_RDWR));
	return contained();
}
