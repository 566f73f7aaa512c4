// tries: hold more memory in connections to itself than its limit
// outcome: succeeded|out_of_memory
// at gvisor: connections are those of the sandbox's own network stack, and their buffers are its memory: so many that they do not fit into it, its kernel's part included
#include "hostile.h"
#include <netinet/in.h>
// Worked on 5ee7338 with cgroup v1, at cell and task: 393 MiB were held under a limit of 128 MiB, with 40 connections.
int main(void) {
	long long held = 0;
	static char data[1 << 20];
	int server = socket(AF_INET, SOCK_STREAM, 0), most = 1 << 30;
	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	if (bind(server, (void *)&a, n) < 0 || listen(server, 200) < 0 || getsockname(server, (void *)&a, &n) < 0) return contained();
	for (int i = 0; i < 200; i++) {
		int c = socket(AF_INET, SOCK_STREAM, 0);
		if (c < 0) break;
		setsockopt(c, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
		fcntl(c, F_SETFL, O_NONBLOCK);
		connect(c, (void *)&a, n);
		for (int j = 0; j < 50; j++) {
			ssize_t w = send(c, data, sizeof data, MSG_DONTWAIT);
			if (w <= 0) break;
			held += w;
		}
	}
	hold();
	if (held > most_memory()) escaped("%lld MiB in connections", held >> 20);
	return contained();
}
