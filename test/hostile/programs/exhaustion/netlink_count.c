// tries: hold many netlink sockets, over which the kernel walks when it shows those of any job
// outcome: out_of_memory
// gvisor: succeeded, its kernel has a table of its own
#include "hostile.h"
#include <linux/netlink.h>
int main(void) {
	int total[2], all = 0;
	pipe(total);
	for (int p = 0; p < 16; p++) {
		if (fork() != 0) continue;
		int n = 0;
		struct sockaddr_nl any = {.nl_family = AF_NETLINK};
		for (int s; n < 500 && (s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE)) >= 0; n++) bind(s, (void *)&any, sizeof any);
		write(total[1], &n, sizeof n);
		hold();
		_exit(0);
	}
	close(total[1]);
	for (int n; read(total[0], &n, sizeof n) == sizeof n;) all += n;
	if (all > 2048 && !in_gvisor()) escaped("%d netlink sockets", all);
	return contained();
}
