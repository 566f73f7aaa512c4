// tries: fill the kernel's memory with attributes of files
// outcome: succeeded|out_of_memory
#include "hostile.h"
#include <sys/xattr.h>
int main(void) {
	long long held = 0;
	static char data[60000];
	for (int f = 0; f < 400; f++) {
		char name[64];
		snprintf(name, sizeof name, "/tmp/f%d", f);
		close(open(name, O_CREAT | O_WRONLY, 0600));
		for (int i = 0; i < 100; i++) {
			char key[32];
			snprintf(key, sizeof key, "user.k%d", i);
			if (setxattr(name, key, data, sizeof data, 0) < 0) break;
			held += sizeof data;
		}
	}
	hold();
	if (held > 128 << 20) escaped("%lld MiB in attributes", held >> 20);
	return contained();
}
