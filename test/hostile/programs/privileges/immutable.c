// tries: make files that nobody can remove
// outcome: succeeded
#include "hostile.h"
#include <linux/fs.h>
#include <sys/ioctl.h>
int main(void) {
	int fd = open("/tmp/f", O_CREAT | O_RDWR, 0600), flags = FS_IMMUTABLE_FL | FS_APPEND_FL;
	REFUSED(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	chmod("/tmp", 0); chmod("/workspace", 0);
	return contained();
}
