// tries: treat its output as a file: truncate, seek, map, read back, relabel
// outcome: succeeded
#include "hostile.h"
int main(void) {
	char c;
	REFUSED(ftruncate(1, 0));
	REFUSED(lseek(1, 0, SEEK_SET));
	REFUSED(mmap(NULL, 4096, PROT_READ, MAP_SHARED, 1, 0));
	REFUSED(read(1, &c, 1));
	return contained();
}
