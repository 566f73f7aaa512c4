// tries: hang where it cannot be interrupted, waiting for a child of vfork
// outcome: timed_out
// policy: {"wall": "500ms"}
#include "hostile.h"
int main(void) { if (vfork() == 0) for (;;) pause(); return 0; }
