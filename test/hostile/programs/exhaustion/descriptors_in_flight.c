// tries: hold files open as messages in a socket, where no limit counts them, and nobody of its user on the host may send another
// outcome: succeeded
// gvisor: timed_out|out_of_memory, its kernel keeps them, within its time and memory
// policy: {"wall": "20s", "cpu_time": "10s"}
#include "hostile.h"
// Worked on 5ee7338: all jobs of a cell were one user to the host.
int main(void) {
	int n = 0, pair[2];
	for (int i = 0; i < 100 && socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) == 0; i++) {
		for (;;) {
			char room[CMSG_SPACE(sizeof(int) * 8)] = {0}, byte = 0;
			struct iovec v = {&byte, 1};
			struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
			struct cmsghdr *c = CMSG_FIRSTHDR(&m);
			c->cmsg_level = SOL_SOCKET; c->cmsg_type = SCM_RIGHTS; c->cmsg_len = CMSG_LEN(sizeof(int) * 8);
			for (int j = 0; j < 8; j++) ((int *)CMSG_DATA(c))[j] = 0;
			if (sendmsg(pair[0], &m, MSG_DONTWAIT) < 0) break;
			n += 8;
		}
	}
	hold();
	if (n > 4096) escaped("%d files in flight", n);
	return contained();
}
