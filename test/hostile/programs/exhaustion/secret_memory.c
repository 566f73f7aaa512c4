// tries: have memory that the kernel can neither swap nor see
// outcome: succeeded
#include "hostile.h"
int main(void) {
	REFUSED(SYSCALL(447, 0)); // memfd_secret
	return contained();
}
