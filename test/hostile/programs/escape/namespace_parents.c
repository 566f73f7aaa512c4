// tries: climb from its own namespaces to those around them
// outcome: succeeded
#include "hostile.h"
#include <linux/nsfs.h>
#include <sys/ioctl.h>
int main(void) {
	const char *kinds[] = {"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char path[64];
		snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[i]);
		int fd = open(path, O_RDONLY);
		if (fd < 0) continue;
		REFUSED(ioctl(fd, NS_GET_PARENT));
		int owner = ioctl(fd, NS_GET_USERNS);
		if (owner >= 0) { // its own user namespace, at most
			struct stat a, b;
			if (fstat(owner, &a) || stat("/proc/self/ns/user", &b) || a.st_ino != b.st_ino) escaped("the user namespace behind %s", kinds[i]);
			REFUSED(ioctl(owner, NS_GET_PARENT));
			REFUSED(ioctl(owner, NS_GET_USERNS));
			REFUSED(setns(owner, 0));
		}
		REFUSED(setns(fd, 0));
		uid_t uid = 4242;
		if (i == 0 && ioctl(fd, NS_GET_OWNER_UID, &uid) == 0 && uid == 0) escaped("root owns its user namespace");
	}
	return contained();
}
