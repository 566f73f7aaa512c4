// tries: leave word for the next case, in every place that it can write to
// outcome: failed
#include "cheat.h"
int main(void) {
	const char *places[] = {"/workspace", "/workspace/.out", "/workspace/feedback", "/tmp", "/dev/shm", "/run", "/var/tmp", "/case", "/dev", "/dev/mqueue", "/"};
	char path[256];
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		snprintf(path, sizeof path, "%s/word", places[i]);
		if (access(path, F_OK) == 0) printf("ESCAPED: the case before left %s\n", path);
		int fd = open(path, O_WRONLY | O_CREAT, 0666);
		if (fd >= 0) close(fd);
	}
	int id = shmget(4711, 4096, 0600);
	if (id >= 0) puts("ESCAPED: the case before left a segment");
	shmget(4711, 4096, IPC_CREAT | 0600);
	puts("nothing");
}
