// tries: have the kernel watch descriptors without end
// outcome: succeeded|out_of_memory
#include "hostile.h"
#include <sys/epoll.h>
int main(void) {
	int n = 0, files[100], count = 0;
	while (count < 100 && (files[count] = dup(0)) >= 0) count++;
	int pair[2];
	pipe(pair);
	for (int i = 0; i < count; i++) dup2(pair[0], files[i]);
	for (int e; (e = epoll_create1(0)) >= 0;) {
		struct epoll_event v = {.events = EPOLLIN};
		for (int i = 0; i < count; i++) if (epoll_ctl(e, EPOLL_CTL_ADD, files[i], &v) == 0) n++;
	}
	hold();
	if (n > 100000) escaped("%d watches", n);
	return contained();
}
