// tries: write without end, in one line, with zeros and bytes that are no text
// outcome: failed
#include "cheat.h"
int main(void) {
	static char buf[1 << 16];
	for (size_t i = 0; i < sizeof buf; i++) buf[i] = i * 7;
	for (;;) if (write(1, buf, sizeof buf) < 0) return 0;
}
