// tries: have whoever started it wait for the stops and the ends of thousands of its threads
// outcome: succeeded
// policy: {"wall": "60s"}
// victim: yes
#include "hostile.h"

static void *thread(void *arg) {
	ptrace(PTRACE_TRACEME, 0, 0, 0);
	return arg;
}

int main(void) {
	for (int i = 0; i < 5000; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, thread, NULL) == 0)
			pthread_join(t, NULL);
	}
	return contained();
}
