// tries: live as another system, with a map at address zero
// outcome: succeeded
#include "hostile.h"
#include <sys/personality.h>
int main(void) {
	REFUSED(personality(ADDR_COMPAT_LAYOUT | MMAP_PAGE_ZERO));
	if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) escaped("a page at zero");
	return contained();
}
