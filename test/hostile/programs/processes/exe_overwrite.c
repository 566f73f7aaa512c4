// tries: overwrite the program of process 1 and of its parent through /proc/*/exe
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char path[64];
	int pids[] = {1, getppid()};
	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "/proc/%d/exe", pids[i]);
		REFUSED(open(path, O_RDWR));
		REFUSED(open(path, O_WRONLY | O_TRUNC));
	}
	REFUSED(open("/run/assay/guest", O_RDWR));
	REFUSED(open("/run/assay/guest", O_WRONLY | O_TRUNC));
	return contained();
}
