// tries: mount, bind, remount, move and unmount
// outcome: succeeded
#include "hostile.h"
int main(void) {
	REFUSED(mount("none", "/tmp", "tmpfs", 0, NULL));
	REFUSED(mount("proc", "/tmp", "proc", 0, NULL));
	REFUSED(mount("sysfs", "/tmp", "sysfs", 0, NULL));
	REFUSED(mount("cgroup", "/tmp", "cgroup", 0, "memory"));
	REFUSED(mount("none", "/tmp", "cgroup2", 0, NULL));
	REFUSED(mount("none", "/tmp", "debugfs", 0, NULL));
	REFUSED(mount("mqueue", "/tmp", "mqueue", 0, NULL));
	REFUSED(mount("/", "/tmp", NULL, MS_BIND, NULL));
	REFUSED(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
	REFUSED(mount(NULL, "/", NULL, MS_SHARED | MS_REC, NULL));
	REFUSED(mount("/proc", "/tmp", NULL, MS_MOVE, NULL));
	const char *places[] = {"/", "/proc", "/sys", "/tmp", "/workspace", "/dev", "/run/assay", "/proc/kcore", "/proc/sys"};
	for (int i = 0; i < 9; i++) {
		REFUSED(umount2(places[i], 0));
		REFUSED(umount2(places[i], MNT_DETACH));
	}
	return contained();
}
