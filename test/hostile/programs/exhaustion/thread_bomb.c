// tries: start more threads than it may
// outcome: succeeded|process_limit
#include "hostile.h"
static void *idle(void *unused) { pause(); return unused; }
int main(void) {
	int n = 0;
	pthread_attr_t small;
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	for (pthread_t t; n < 1000 && pthread_create(&t, &small, idle, NULL) == 0;) n++;
	if (n >= 32) escaped("%d threads", n);
	return contained();
}
