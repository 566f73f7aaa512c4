// tries: make device nodes and use them
// outcome: succeeded
#include "hostile.h"
#include <sys/sysmacros.h>
int main(void) {
	const char *places[] = {"/tmp/d", "/workspace/d", "/dev/shm/d", "/dev/d"};
	int numbers[][2] = {{1, 1}, {1, 3}, {8, 0}, {254, 0}, {253, 0}, {10, 229}, {10, 232}, {7, 0}};
	for (int p = 0; p < 4; p++)
		for (int n = 0; n < 8; n++) {
			REFUSED(mknod(places[p], S_IFBLK | 0666, makedev(numbers[n][0], numbers[n][1])));
			REFUSED(mknod(places[p], S_IFCHR | 0666, makedev(numbers[n][0], numbers[n][1])));
		}
	return contained();
}
