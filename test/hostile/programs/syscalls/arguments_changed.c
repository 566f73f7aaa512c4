// tries: change the arguments of a call between the filter and the kernel
// outcome: succeeded|failed
#include "hostile.h"
static volatile unsigned long flags = SIGCHLD;
static volatile int over;
static void *flip(void *_) { while (!over) { flags = CLONE_NEWUSER | SIGCHLD; flags = SIGCHLD; } return NULL; }
int main(void) {
	struct stat own, child;
	stat("/proc/self/ns/user", &own);
	pthread_t t;
	pthread_create(&t, NULL, flip, NULL);
	for (int i = 0; i < 300; i++) {
		struct { uint64_t flags, rest[10]; } args = {flags, {0, 0, 0, SIGCHLD}};
		long pid = i % 2 ? syscall(SYS_clone, flags, 0, 0, 0, 0) : syscall(435 /* clone3 */, &args, 88);
		if (pid == 0) { _exit(stat("/proc/self/ns/user", &child) == 0 && child.st_ino != own.st_ino); }
		int status = 0;
		if (pid > 0 && waitpid(pid, &status, __WALL) == pid && WIFEXITED(status) && WEXITSTATUS(status)) escaped("a user namespace");
	}
	over = 1;
	pthread_join(t, NULL);
	return contained();
}
