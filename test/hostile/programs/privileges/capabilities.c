// tries: give itself capabilities, permitted, inherited and ambient
// outcome: succeeded
// gvisor: failed, its kernel takes capabilities that it does not know, and gives none
#include "hostile.h"
#include <linux/capability.h>
int main(void) {
	struct __user_cap_header_struct h = {_LINUX_CAPABILITY_VERSION_3, 0};
	for (int c = 0; c < 41; c++) {
		struct __user_cap_data_struct d[2] = {0};
		d[c / 32].permitted = d[c / 32].effective = d[c / 32].inheritable = 1u << (c % 32);
		REFUSED(syscall(SYS_capset, &h, d));
		REFUSED(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, c, 0, 0));
	}
	return contained();
}
