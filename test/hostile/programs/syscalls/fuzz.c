// tries: crash the kernel or the guest by random calls
// outcome: succeeded|signaled|failed|timed_out|process_limit|out_of_memory|output_limit
// policy: {"wall": "3s", "stdout": {"limit": "1Ki"}}
#include "hostile.h"
static uint64_t s = 88172645463325252ULL;
static uint64_t next(void) { s ^= s << 13; s ^= s >> 7; return s ^= s << 17; }
int main(void) {
	static char room[1 << 16];
	for (int round = 0; round < 200; round++) {
		s += round * 7919 + 1;
		if (fork() == 0) {
			alarm(1);
			for (int i = 0; i < 3000; i++) {
				uint64_t a[6];
				for (int j = 0; j < 6; j++) a[j] = next() % 3 ? next() % 64 : (uint64_t)room + next() % 60000;
				long n = next() % 470;
				if (n == SYS_kill || n == SYS_tkill || n == SYS_tgkill || n == SYS_exit_group || n == SYS_exit || n == SYS_pause) continue;
				syscall(n, a[0], a[1], a[2], a[3], a[4], a[5]);
			}
			_exit(0);
		}
		wait(NULL);
	}
	return contained();
}
