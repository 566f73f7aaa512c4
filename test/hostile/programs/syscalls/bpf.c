// tries: load a program into the kernel
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char attr[128] = {0};
	for (int cmd = 0; cmd < 36; cmd++) REFUSED(syscall(SYS_bpf, cmd, attr, sizeof attr));
	return contained();
}
