// tries: end before anybody looks, as one who succeeds
// outcome: failed
#include "cheat.h"
__attribute__((constructor)) static void first(void) { _exit(0); }
int main(void) { return 1; }
