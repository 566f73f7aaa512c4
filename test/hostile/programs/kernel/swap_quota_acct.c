// tries: administer the machine: swap, quotas, accounting, names
// outcome: succeeded
#include "hostile.h"
#include <sys/swap.h>
int main(void) {
	close(open("/tmp/swap", O_CREAT | O_RDWR, 0600));
	REFUSED(swapon("/tmp/swap", 0));
	REFUSED(swapoff("/tmp/swap"));
	REFUSED(syscall(SYS_quotactl, 0x800002, "/dev/sda", 0, NULL));
	REFUSED(acct("/tmp/swap"));
	REFUSED(sethostname("owned", 5));
	REFUSED(setdomainname("owned", 5));
	REFUSED(vhangup());
	return contained();
}
