// What the C programs of the corpus share.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// escaped says that a wall did not hold, and ends with a failure.
static void escaped(const char *format, ...) {
	va_list args;
	va_start(args, format);
	printf("ESCAPED: ");
	vprintf(format, args);
	printf("\n");
	fflush(stdout);
	_exit(42);
}

// contained says that every wall held.
static int contained(void) {
	puts("contained");
	return 0;
}

// hold keeps what a program has taken for as long as a neighbour takes to notice.
static void hold(void) { usleep(1500000); }

// REFUSED makes a call that must fail.
#define REFUSED(call) do { \
	errno = 0; \
	long got_ = (long)(call); \
	if (got_ != -1) escaped("%s = %ld", #call, got_); \
} while (0)

// SYSCALL is a system call that may be unknown to the C library.
#define SYSCALL(nr, ...) syscall(nr, ##__VA_ARGS__)
