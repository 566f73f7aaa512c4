// tries: have the kernel queue signals, by many processes that raise their limit first
// outcome: succeeded
#include "hostile.h"
int main(void) {
	int total[2];
	pipe(total);
	for (int i = 0; i < 20; i++) {
		if (fork() != 0) continue;
		struct rlimit most = {RLIM_INFINITY, RLIM_INFINITY}, now;
		setrlimit(RLIMIT_SIGPENDING, &most);
		getrlimit(RLIMIT_SIGPENDING, &now);
		now.rlim_cur = now.rlim_max;
		setrlimit(RLIMIT_SIGPENDING, &now);
		sigset_t all;
		sigfillset(&all);
		sigprocmask(SIG_BLOCK, &all, NULL);
		union sigval v = {0};
		int n = 0;
		while (n < 20000 && sigqueue(getpid(), SIGRTMIN, v) == 0) n++;
		write(total[1], &n, sizeof n);
		hold();
		_exit(0);
	}
	close(total[1]);
	int n, all = 0;
	while (read(total[0], &n, sizeof n) == sizeof n) all += n;
	if (all > 4096) escaped("%d signals", all);
	return contained();
}
