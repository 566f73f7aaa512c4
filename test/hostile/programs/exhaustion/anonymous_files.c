// tries: make files that only its descriptors name: events, timers, signals, watches
// outcome: succeeded
// victim: yes
#include "hostile.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
int main(void) {
	int n = 0;
	sigset_t all;
	sigfillset(&all);
	for (;;) {
		int fd = n % 4 == 0 ? eventfd(0, 0) : n % 4 == 1 ? timerfd_create(CLOCK_MONOTONIC, 0) : n % 4 == 2 ? signalfd(-1, &all, 0) : epoll_create1(0);
		if (fd < 0) break;
		struct itimerspec t = {{0, 1000}, {0, 1000}};
		if (n % 4 == 1) timerfd_settime(fd, 0, &t, NULL);
		if (++n > 4096) escaped("%d files", n);
	}
	return contained();
}
