// tries: be compiled to something that the kernel cannot load, so that the fleet is to blame
// outcome: failed
#include "cheat.h"
asm(".bss\n.globl much\n.balign 64\nmuch:\n.space 1<<46\n.text");
int main(void) { puts("nothing"); }
