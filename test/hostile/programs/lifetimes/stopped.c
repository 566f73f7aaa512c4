// tries: stop itself, so that nobody sees it end
// outcome: timed_out
// policy: {"wall": "500ms"}
#include "hostile.h"
int main(void) { kill(getpid(), SIGSTOP); return 0; }
