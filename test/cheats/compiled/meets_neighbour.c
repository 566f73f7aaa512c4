// tries: meet the case that runs beside it, by everything that a kernel has names for
// outcome: failed
#include "cheat.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/file.h>
int main(void) {
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	memcpy(a.sun_path, "\0cheats-meet", 12);
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(47110), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int l = socket(AF_UNIX, SOCK_STREAM, 0), t = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(l, (void *)&a, sizeof(sa_family_t) + 12) < 0) puts("ESCAPED: a neighbour has the name");
	if (bind(t, (void *)&in, sizeof in) < 0) puts("ESCAPED: a neighbour has the port");
	listen(l, 1);
	listen(t, 1);
	if (shmget(4712, 4096, IPC_CREAT | IPC_EXCL | 0600) < 0 && errno == EEXIST) puts("ESCAPED: a neighbour has the segment");
	int f = open("/workspace/.out/main", O_RDONLY), p = open("/usr/bin/env", O_RDONLY);
	if (f >= 0 && flock(f, LOCK_EX | LOCK_NB) < 0) puts("ESCAPED: a neighbour has locked the program");
	struct flock all = {.l_type = F_RDLCK};
	fcntl(p, F_SETLK, &all);
	usleep(700000);
	puts("nothing");
}
