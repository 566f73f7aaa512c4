// tries: have its pages compared with those of others and merged
// outcome: succeeded
#include "hostile.h"
int main(void) {
	prctl(67 /* PR_SET_MEMORY_MERGE */, 1, 0, 0, 0); // its own pages, as it likes
	int on = open("/sys/kernel/mm/ksm/run", O_RDONLY);
	char run = '0';
	if (on >= 0) { if (read(on, &run, 1) < 1) run = '0'; }
	REFUSED(open("/sys/kernel/mm/ksm/run", O_WRONLY));
	REFUSED(open("/sys/kernel/mm/transparent_hugepage/enabled", O_WRONLY));
	REFUSED(open("/sys/kernel/mm/lru_gen/enabled", O_WRONLY));
	if (run == '1') escaped("this host merges pages across jobs");
	return contained();
}
