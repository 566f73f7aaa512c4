// tries: answer its own filter's questions, to make calls in another's name
// outcome: succeeded|signaled
#include "hostile.h"
#include <linux/filter.h>
#include <sys/ioctl.h>
#include <linux/seccomp.h>
int main(void) {
	struct sock_filter f[] = {
		{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0},
		{BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_unshare},
		{BPF_RET | BPF_K, 0, 0, 0x7fc00000},
		{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
	};
	struct sock_fprog p = {4, f};
	int fd = syscall(SYS_seccomp, 1, 8, &p);
	if (fd < 0) return contained();
	if (fork() == 0) { unshare(CLONE_NEWUSER) == 0 ? _exit(42) : _exit(0); }
	struct { uint64_t id; uint32_t pid, flags; uint64_t data[8]; } ask = {0};
	struct { uint64_t id; int64_t val; int32_t error; uint32_t flags; } say = {0};
	alarm(5);
	if (ioctl(fd, 0xc0502100, &ask) == 0) {
		say.id = ask.id; say.flags = 1;
		ioctl(fd, 0xc0182101, &say);
	}
	int status = 0;
	wait(&status);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 42) escaped("a namespace by permission of itself");
	return contained();
}
