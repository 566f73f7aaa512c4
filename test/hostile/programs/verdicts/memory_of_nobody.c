// tries: use up its memory with files that are nobody's and pipes that are everybody's, so that the kernel ends process 1
// outcome: out_of_memory|disk_limit
// policy: {"memory": "32Mi", "disk": "64Mi", "open_files": 4096}
#include "hostile.h"

int main(void) {
	char page[65536];
	memset(page, 1, sizeof page);
	for (int i = 0;; i++) {
		int fd = syscall(SYS_memfd_create, "x", 0);
		for (int j = 0; j < 16; j++)
			if (fd < 0 || write(fd, page, sizeof page) < 0)
				usleep(1000);
	}
}
