// tries: stop, so that nobody can say that it failed
// outcome: failed
#include "cheat.h"
int main(void) { puts("nothing"); fflush(stdout); for (;;) raise(SIGSTOP); }
