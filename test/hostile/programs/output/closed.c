// tries: confuse the collector by closing its streams and living on
// outcome: succeeded|failed
#include "hostile.h"
int main(void) {
	puts("contained");
	fflush(stdout);
	for (int fd = 0; fd < 300; fd++) close(fd);
	usleep(200000);
	return 0;
}
