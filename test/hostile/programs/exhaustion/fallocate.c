// tries: reserve a terabyte without writing it
// outcome: succeeded|disk_limit
#include "hostile.h"
int main(void) {
	int fd = open("/tmp/big", O_CREAT | O_RDWR, 0600);
	REFUSED(fallocate(fd, 0, 0, 1LL << 40));
	REFUSED(fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 1LL << 40));
	return contained();
}
