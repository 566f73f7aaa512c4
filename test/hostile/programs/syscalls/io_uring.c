// tries: make its calls by io_uring, which no filter sees
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char params[120] = {0};
	REFUSED(syscall(425, 8, params));
	REFUSED(syscall(426, 0, 0, 0, 0, NULL, 0));
	REFUSED(syscall(427, 0, 0, NULL, 0));
	return contained();
}
