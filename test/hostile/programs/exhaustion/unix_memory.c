// tries: hold more memory in datagrams of unix sockets than its limit, over many processes
// outcome: succeeded|out_of_memory
#include "hostile.h"
int main(void) {
	long long held = 0, all = 0;
	int total[2], most = 1 << 30;
	static char data[60000];
	pipe(total);
	for (int p = 0; p < 20; p++) {
		if (fork() != 0) continue;
		for (int i = 0; i < 110; i++) {
			int pair[2];
			if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) < 0) break;
			setsockopt(pair[0], SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
			for (int j = 0; j < 200; j++) {
				ssize_t n = send(pair[0], data, sizeof data, MSG_DONTWAIT);
				if (n < 0) break;
				held += n;
			}
		}
		write(total[1], &held, sizeof held);
		hold();
		_exit(0);
	}
	close(total[1]);
	while (read(total[0], &held, sizeof held) == sizeof held) all += held;
	if (all > 128 << 20) escaped("%lld MiB in datagrams", all >> 20);
	return contained();
}
