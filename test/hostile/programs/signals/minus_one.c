// tries: kill everybody but process 1, itself too
// outcome: signaled|succeeded
// victim: yes
#include "hostile.h"
int main(void) {
	kill(-1, SIGKILL);
	return contained();
}
