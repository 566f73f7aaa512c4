// tries: take all inotify instances and watches that this host has
// outcome: succeeded
// gvisor: failed, its kernel has instances of its own
#include "hostile.h"
#include <sys/inotify.h>
// Worked on 5ee7338: all 128 instances of the host's root were this job's, and the engine's own could not be made.
int main(void) {
	int n = 0, watches = 0, last = -1;
	for (int i = 0; i < 1000; i++) { int fd = inotify_init(); if (fd < 0) break; last = fd; n++; }
	for (int i = 0; last >= 0 && i < 400; i++) {
		char name[64];
		snprintf(name, sizeof name, "/tmp/d%d", i);
		if (mkdir(name, 0700) == 0 && inotify_add_watch(last, name, IN_CREATE) >= 0) watches++;
	}
	hold();
	if (n > 16) escaped("%d instances", n);
	return contained();
}
