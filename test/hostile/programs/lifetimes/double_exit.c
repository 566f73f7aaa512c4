// tries: end its main thread and live on in another
// outcome: timed_out
// policy: {"wall": "500ms"}
#include "hostile.h"
static void *on(void *unused) { for (;;) pause(); }
int main(void) {
	pthread_t t;
	pthread_create(&t, NULL, on, NULL);
	pthread_exit(NULL);
}
