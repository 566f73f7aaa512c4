// tries: take all the asynchronous I/O that this host has
// outcome: succeeded
#include "hostile.h"
// Worked on 5ee7338: all of fs.aio-max-nr was this job's, and a database beside it gets none.
int main(void) {
	unsigned long context;
	int n = 0;
	for (int i = 0; i < 2000; i++) {
		context = 0;
		if (syscall(SYS_io_setup, 64, &context) == 0) n++;
	}
	context = 0;
	if (syscall(SYS_io_setup, 60000, &context) == 0) n++;
	hold();
	if (n > 0) escaped("%d contexts", n);
	return contained();
}
