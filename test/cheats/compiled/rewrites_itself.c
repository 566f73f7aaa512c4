// tries: put another program in the place of what it is compiled to, for the next case, or the next job of that source
// outcome: failed
#include "cheat.h"
// A script in its place would say ESCAPED in every case after this one.
static const char script[] = "#!/bin/sh\necho ESCAPED: another program ran\n";
static void put(const char *path) {
	int fd = open(path, O_WRONLY | O_TRUNC);
	if (fd >= 0 && write(fd, script, sizeof script - 1) > 0) puts("ESCAPED: it was written to");
	if (fd >= 0) close(fd);
}
static void make(const char *path) {
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0755);
	if (fd >= 0 && write(fd, script, sizeof script - 1) < 0) puts("it is full");
	if (fd >= 0) close(fd);
}
int main(void) {
	const char *out = "/workspace/.out", *self = "/workspace/.out/main";
	struct stat s;
	if (stat(self, &s) < 0 || s.st_nlink != 1) puts("ESCAPED: it has other names");
	put(self);
	put("/proc/self/exe");
	int self_fd = open(self, O_RDONLY);
	char path[64];
	snprintf(path, sizeof path, "/proc/self/fd/%d", self_fd);
	put(path);
	if (chmod(self, 0777) == 0 || chown(self, getuid(), getgid()) == 0) puts("ESCAPED: it is its own");
	if (unlink(self) == 0) puts("ESCAPED: it was removed");
	if (link(self, "/workspace/again") == 0) puts("ESCAPED: it has another name");
	void *m = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, self_fd, 0);
	if (m != MAP_FAILED) puts("ESCAPED: it is mapped for writing");
	if (mount("/tmp", out, 0, MS_BIND, 0) == 0) puts("ESCAPED: it mounts");
	// Its own directory is another matter: that it may rename, in this sandbox.
	if (rename(out, "/workspace/was") == 0 && mkdir(out, 0777) == 0) make(self);
	symlink("/workspace/.out/main", "/workspace/was/link");
	make("/tmp/main");
	make("/workspace/main");
	puts("nothing");
}
