// tries: have the kernel watch files without end
// outcome: succeeded
#include "hostile.h"
#include <sys/inotify.h>
int main(void) {
	int n = 0;
	for (int i = 0; i < 1000; i++) { int fd = inotify_init(); if (fd < 0) break; n++; }
	if (n >= 256) escaped("%d instances", n);
	return contained();
}
