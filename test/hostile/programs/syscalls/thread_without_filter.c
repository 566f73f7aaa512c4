// tries: have a thread that was there before keep the calls that it lost
// outcome: succeeded|signaled|failed
#include "hostile.h"
static int gate[2];
static void *old(void *_) {
	char b;
	if (read(gate[0], &b, 1) != 1) return NULL;
	return (void *)(long)(unshare(CLONE_NEWUSER) == 0 || mount("none", "/tmp", "tmpfs", 0, NULL) == 0);
}
int main(void) {
	pthread_t t;
	void *got;
	if (pipe(gate) || pthread_create(&t, NULL, old, NULL)) return 1;
	prctl(PR_SET_SECCOMP, 1 /* strict */, 0, 0, 0) == 0 ? 0 : 0;
	if (write(gate[1], "x", 1) != 1) _exit(0);
	pthread_join(t, &got);
	if (got) escaped("a thread mounts");
	return contained();
}
