// tries: close its streams and stay
// outcome: failed
#include "cheat.h"
int main(void) { for (int fd = 0; fd < 4096; fd++) close(fd); for (;;) pause(); }
