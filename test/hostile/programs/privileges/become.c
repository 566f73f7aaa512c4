// tries: become somebody else by every call there is
// outcome: succeeded
// gvisor: failed, its kernel does not know setfsuid, and says 0
#include "hostile.h"
#include <grp.h>
#include <sys/fsuid.h>
int main(void) {
	gid_t groups[] = {0};
	uid_t me = getuid();
	for (uid_t u = 0; u < 70000; u += (u < 1100 ? 1 : 4097)) {
		if (u == me) continue;
		REFUSED(setuid(u));
		REFUSED(setreuid(u, u));
		REFUSED(setresuid(-1, u, -1));
		if (u != getgid()) REFUSED(setgid(u));
		setfsuid(u);
		if (setfsuid(-1) != me) escaped("files as %d", u);
	}
	REFUSED(setgroups(1, groups));
	return contained();
}
