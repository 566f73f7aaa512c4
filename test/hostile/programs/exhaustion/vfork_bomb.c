// tries: vfork and exec itself without end
// outcome: process_limit|failed|timed_out|out_of_memory
// policy: {"wall": "3s"}
#include "hostile.h"
int main(int argc, char **argv) {
	for (int failures = 0; failures < 1000;) {
		pid_t pid = vfork();
		if (pid == 0) { execl("/proc/self/exe", "again", NULL); _exit(1); }
		if (pid < 0) failures++;
	}
	return 1;
}
