// tries: start another kernel, or none
// outcome: succeeded
#include "hostile.h"
#include <linux/reboot.h>
int main(void) {
	int fd = open("/proc/self/exe", O_RDONLY);
	REFUSED(syscall(SYS_kexec_load, 0, 0, NULL, 0));
	REFUSED(syscall(SYS_kexec_file_load, fd, fd, 1, "", 0));
	REFUSED(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_CAD_OFF, NULL));
	REFUSED(syscall(SYS_reboot, LINUX_REBOOT_MAGIC1, LINUX_REBOOT_MAGIC2, LINUX_REBOOT_CMD_POWER_OFF, NULL));
	return contained();
}
