// What the C programs of the corpus share.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
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
#include <sys/utsname.h>
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

// in_gvisor is whether the kernel is gVisor's, which serves this job alone.
static inline int in_gvisor(void) {
	struct utsname u;
	return uname(&u) == 0 && strstr(u.release, "gvisor");
}

// most_memory is how much a job may hold under a limit of 128 MiB. At gvisor its kernel has 96 more,
// and what that does not need is the job's.
static long long most_memory(void) {
	return (in_gvisor() ? 224LL : 128LL) << 20;
}

// fill_connections connects to itself and sends into each connection for as long as
// something fits, and accepts each when it is full if accept_full says so. It returns how
// many bytes were taken, and stops soon after 300 MiB.
static long long fill_connections(int connections, int accept_full) {
	static char data[1 << 16];
	long long held = 0;
	int server = socket(AF_INET, SOCK_STREAM, 0), most = 1 << 30;
	setsockopt(server, SOL_SOCKET, SO_RCVBUF, &most, sizeof most);
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof a;
	if (bind(server, (void *)&a, n) < 0 || listen(server, connections) < 0 || getsockname(server, (void *)&a, &n) < 0) return 0;
	for (int i = 0; i < connections && held < 300 << 20; i++) {
		int c = socket(AF_INET, SOCK_STREAM, 0);
		if (c < 0 || connect(c, (void *)&a, n) < 0) break;
		for (int misses = 0; misses < 20;) {
			ssize_t w = send(c, data, sizeof data, MSG_DONTWAIT);
			if (w > 0) held += w, misses = 0;
			else misses++, usleep(100);
		}
		if (accept_full) accept(server, 0, 0);
	}
	return held;
}
