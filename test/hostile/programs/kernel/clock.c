// tries: set the clock of the machine
// outcome: succeeded
#include "hostile.h"
#include <sys/time.h>
#include <sys/timex.h>
#include <time.h>
int main(void) {
	struct timespec t = {0, 0};
	struct timeval v = {0, 0};
	struct timex x = {.modes = ADJ_OFFSET, .offset = 1};
	REFUSED(clock_settime(CLOCK_REALTIME, &t));
	REFUSED(settimeofday(&v, NULL));
	REFUSED(adjtimex(&x));
	REFUSED(syscall(SYS_clock_adjtime, CLOCK_REALTIME, &x));
	REFUSED(open("/dev/rtc0", O_RDWR));
	return contained();
}
