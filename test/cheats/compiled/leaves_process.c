// tries: leave a process behind, which tells the next case what it has seen
// outcome: failed
#include "cheat.h"
static int address(struct sockaddr_un *a) {
	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(a->sun_path, "\0cheats-next-case", 17);
	return sizeof(sa_family_t) + 17;
}
int main(void) {
	struct sockaddr_un a;
	int n = address(&a), s = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(s, (void *)&a, n) == 0) puts("ESCAPED: the process of another case answers");
	puts("nothing");
	fflush(stdout);
	if (fork() != 0) return 0;
	setsid();
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	if (fork() != 0) _exit(0);
	int l = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(l, (void *)&a, n) < 0 || listen(l, 8) < 0) _exit(1);
	for (double end = now() + 10; now() < end;) {
		int c = accept(l, 0, 0);
		if (c >= 0) close(c);
	}
}
