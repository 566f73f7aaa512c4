// tries: talk to the hardware by its ports
// outcome: succeeded|signaled
#include "hostile.h"
#ifdef __x86_64__
#include <sys/io.h>
int main(void) { REFUSED(iopl(3)); REFUSED(ioperm(0x70, 2, 1)); return contained(); }
#else
int main(void) { return contained(); }
#endif
