// tries: fill the kernel's memory with names that mean nothing
// outcome: succeeded|out_of_memory|timed_out
// policy: {"wall": "15s"}
#include "hostile.h"
int main(void) {
	char name[256];
	struct stat s;
	for (int i = 0; i < 1000000; i++) {
		snprintf(name, sizeof name, "/usr/lib/%0200d", i);
		if (stat(name, &s) == 0) escaped("%s", name);
	}
	hold();
	return contained();
}
