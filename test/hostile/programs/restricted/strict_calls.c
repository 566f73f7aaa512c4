// tries: make calls that the allow-list leaves out
// outcome: succeeded
// policy: {"syscalls": "strict"}
#include "hostile.h"
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/shm.h>
int main(void) {
	char room[64];
	struct iovec v = {room, sizeof room};
	REFUSED(socket(AF_UNIX, SOCK_STREAM, 0));
	REFUSED(socket(AF_INET, SOCK_STREAM, 0));
	REFUSED(socket(AF_NETLINK, SOCK_RAW, 0));
	REFUSED(socket(38, SOCK_SEQPACKET, 0));
	REFUSED(ptrace(PTRACE_TRACEME, 0, 0, 0));
	REFUSED(process_vm_readv(getpid(), &v, 1, &v, 1, 0));
	REFUSED(memfd_create("x", 0));
	REFUSED(shmget(IPC_PRIVATE, 4096, 0600));
	REFUSED(msgget(IPC_PRIVATE, 0600));
	REFUSED(syscall(SYS_mq_open, "x", O_CREAT, 0600, NULL));
	REFUSED(syscall(SYS_io_setup, 1, room));
	REFUSED(syscall(SYS_inotify_init1, 0));
	REFUSED(syscall(SYS_seccomp, 0, 0, NULL));
	REFUSED(syscall(SYS_setuid, getuid()));
	REFUSED(syscall(SYS_personality, 0xffffffff));
	REFUSED(syscall(SYS_vmsplice, 1, &v, 1, 0));
	REFUSED(syscall(SYS_splice, 0, NULL, 1, NULL, 1, 0));
	REFUSED(syscall(SYS_mknodat, AT_FDCWD, "/tmp/x", S_IFIFO | 0600, 0));
	REFUSED(syscall(SYS_setxattr, "/tmp", "user.x", "y", 1, 0));
	REFUSED(syscall(SYS_name_to_handle_at, AT_FDCWD, "/tmp", room, room, 0));
#ifdef SYS_modify_ldt
	REFUSED(syscall(SYS_modify_ldt, 0, room, 64));
#endif
	REFUSED(syscall(SYS_pidfd_getfd, 0, 0, 0));
	REFUSED(syscall(SYS_mbind, 0, 0, 0, 0, 0, 0));
	return contained();
}
