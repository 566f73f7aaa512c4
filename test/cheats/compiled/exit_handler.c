// tries: end with a checker's word for accepted, by a handler of its end
// outcome: failed
#include "cheat.h"
static void last(void) { _exit(42); }
int main(void) { atexit(last); puts("accepted"); return 1; }
