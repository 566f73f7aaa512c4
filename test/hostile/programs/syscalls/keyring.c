// tries: read and leave keys in the keyrings of others
// outcome: succeeded
#include "hostile.h"
int main(void) {
	REFUSED(syscall(SYS_add_key, "user", "hostile", "x", 1, -4));
	REFUSED(syscall(SYS_request_key, "user", "hostile", NULL, -4));
	REFUSED(syscall(SYS_keyctl, 0, -3, 0));
	REFUSED(syscall(SYS_keyctl, 11, -4, NULL, 0));
	return contained();
}
