// tries: move the memory of others, compare its kernel objects with theirs
// outcome: succeeded
#include "hostile.h"
int main(void) {
	unsigned long nodes = 1;
	REFUSED(syscall(SYS_move_pages, 1, 0, NULL, NULL, NULL, 0));
	REFUSED(syscall(SYS_migrate_pages, 1, 8, &nodes, &nodes));
	REFUSED(syscall(SYS_kcmp, getpid(), 1, 0, 0, 0));
	REFUSED(syscall(SYS_lookup_dcookie, 0, NULL, 0));
	return contained();
}
