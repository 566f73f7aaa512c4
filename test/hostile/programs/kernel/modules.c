// tries: load and unload kernel modules
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int fd = open("/proc/self/exe", O_RDONLY);
	REFUSED(syscall(SYS_finit_module, fd, "", 0));
	REFUSED(syscall(SYS_init_module, "x", 1, ""));
	REFUSED(syscall(SYS_delete_module, "overlay", O_NONBLOCK));
	return contained();
}
