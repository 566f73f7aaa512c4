// tries: pass for a program that the image has not, by exit code 127
// outcome: failed
#include "cheat.h"
int main(void) { fputs("sh: 1: main: not found\n", stderr); _exit(127); }
