// tries: leave its root by chroot, pivot_root and a directory kept open
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int here = open("/", O_RDONLY);
	mkdir("/tmp/r", 0755);
	REFUSED(chroot("/tmp/r"));
	REFUSED(syscall(SYS_pivot_root, "/tmp", "/tmp/r"));
	REFUSED(syscall(SYS_pivot_root, ".", "."));
	fchdir(here);
	for (int i = 0; i < 100; i++) chdir("..");
	struct stat a, b;
	stat(".", &a); stat("/", &b);
	if (a.st_ino != b.st_ino || a.st_dev != b.st_dev) escaped("above the root");
	return contained();
}
