// tries: start a process where that is forbidden, by every call there is
// outcome: succeeded
// policy: {"subprocesses": false}
#include "hostile.h"
#include <spawn.h>
static void *idle(void *unused) { return unused; }
int main(void) {
	REFUSED(fork());
	REFUSED(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	REFUSED(syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0, 0, 0, 0));
	REFUSED(syscall(SYS_clone, CLONE_PARENT | SIGCHLD, 0, 0, 0, 0));
	uint64_t args[11] = {0, 0, 0, 0, SIGCHLD};
	REFUSED(syscall(435, args, 88));
#ifdef SYS_vfork
	REFUSED(syscall(SYS_fork));
	if (syscall(SYS_vfork) == 0) escaped("vfork");
#endif
	pid_t pid;
	char *argv[] = {"true", NULL};
	if (posix_spawn(&pid, "/bin/true", NULL, NULL, argv, NULL) == 0) escaped("posix_spawn");
	if (system("true") == 0) escaped("system");
	pthread_t t;
	if (pthread_create(&t, NULL, idle, NULL)) return 1;
	pthread_join(t, NULL);
	return contained();
}
