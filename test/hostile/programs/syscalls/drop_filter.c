// tries: replace its filter by one that allows everything
// outcome: succeeded
#include "hostile.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
int main(void) {
	struct sock_filter all[] = {{BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
	struct sock_fprog p = {1, all};
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &p);
	REFUSED(prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	REFUSED(prctl(PR_SET_SECCOMP, 0, 0));
	REFUSED(unshare(CLONE_NEWUSER));
	REFUSED(syscall(SYS_bpf, 0, NULL, 0));
	return contained();
}
