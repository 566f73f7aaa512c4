// tries: leave stopped and traced children behind
// outcome: succeeded
#include "hostile.h"
int main(void) {
	for (int i = 0; i < 5; i++) if (fork() == 0) { ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGSTOP); pause(); }
	usleep(100000);
	return contained();
}
