// tries: make calls that came after the filter was written
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int fd = open("/workspace/x", O_CREAT | O_RDWR, 0600);
	struct { uint64_t flags; uint32_t extent, count, project, cow; } attr = {0x10 | 0x20}; // immutable, append-only
	REFUSED(syscall(467 /* open_tree_attr */, AT_FDCWD, "/", 1, NULL, 0));
	REFUSED(syscall(469 /* file_setattr */, AT_FDCWD, "/workspace/x", &attr, sizeof attr, 0));
	struct { uint64_t at; uint32_t size, flags; } value = {(uint64_t)"x", 1, 0};
	REFUSED(syscall(463 /* setxattrat */, AT_FDCWD, "/workspace/x", 0, "security.capability", &value, sizeof value));
	REFUSED(syscall(463, AT_FDCWD, "/workspace/x", 0, "trusted.overlay.opaque", &value, sizeof value));
	char room[64];
	REFUSED(syscall(460 /* lsm_set_self_attr */, 100, room, sizeof room, 0));
	REFUSED(syscall(443 /* quotactl_fd */, fd, 0, 0, NULL));
	REFUSED(syscall(440 /* process_madvise */, -1, NULL, 0, 4, 0));
	REFUSED(syscall(448 /* process_mrelease */, -1, 0));
	REFUSED(syscall(450 /* set_mempolicy_home_node */, 0, 4096, 0, 1));
	REFUSED(syscall(442 /* mount_setattr */, AT_FDCWD, "/", 0x8000, room, 32));
	return contained();
}
