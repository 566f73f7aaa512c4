// tries: read and clear the kernel's log
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char room[4096];
	for (int type = 0; type <= 10; type++) if (type != 1) REFUSED(syscall(SYS_syslog, type, room, sizeof room));
	REFUSED(open("/dev/kmsg", O_RDONLY));
	REFUSED(open("/dev/kmsg", O_WRONLY));
	REFUSED(open("/proc/kmsg", O_RDONLY));
	return contained();
}
