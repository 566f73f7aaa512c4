// tries: change what only the machine's administrator may about a process
// outcome: succeeded
// gvisor: failed, its kernel lets a process say what it likes about itself
#include "hostile.h"
#include <sys/prctl.h>
int main(void) {
	REFUSED(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	REFUSED(prctl(PR_SET_SECUREBITS, 0x2f, 0, 0, 0));
	REFUSED(prctl(PR_SET_MM, PR_SET_MM_EXE_FILE, open("/usr/bin/env", O_RDONLY), 0, 0));
	REFUSED(prctl(PR_SET_MM, PR_SET_MM_ARG_START, (unsigned long)main, 0, 0));
	REFUSED(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0));
	REFUSED(prctl(PR_CAPBSET_DROP, 21, 0, 0, 0));
	REFUSED(prctl(62 /* PR_SCHED_CORE */, 2 /* share to */, 1, 0, 0));
	REFUSED(prctl(62, 3 /* share from */, 1, 0, 0));
	return contained();
}
