// tries: fill the process table with zombies
// outcome: succeeded|process_limit
#include "hostile.h"
int main(void) {
	int n = 0;
	for (; n < 1000; n++) {
		pid_t pid = fork();
		if (pid == 0) _exit(0);
		if (pid < 0) break;
	}
	if (n >= 32) escaped("%d zombies", n);
	return contained();
}
