// tries: write to a file of the image through a private mapping that is thrown away meanwhile
// outcome: succeeded
#include "hostile.h"
static char *map;
static volatile int over;
static void *discard(void *_) { while (!over) madvise(map, 4096, MADV_DONTNEED); return NULL; }
static void *scribble(void *_) {
	int fd = open("/proc/self/mem", O_RDWR);
	while (!over && fd >= 0) if (pwrite(fd, "OWNED", 5, (off_t)map) < 0) break;
	return NULL;
}
int main(void) {
	int fd = open("/etc/passwd", O_RDONLY);
	char before[16], after[16];
	if (pread(fd, before, 16, 0) != 16) return 1;
	map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	pthread_t a, b;
	pthread_create(&a, NULL, discard, NULL);
	pthread_create(&b, NULL, scribble, NULL);
	usleep(400000);
	over = 1;
	pthread_join(a, NULL), pthread_join(b, NULL);
	if (pread(fd, after, 16, 0) != 16 || memcmp(before, after, 16)) escaped("the file has changed");
	return contained();
}
