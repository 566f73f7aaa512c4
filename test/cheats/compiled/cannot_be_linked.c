// tries: need more storage for threads than any loader has, so that the fleet is to blame
// outcome: failed
#include "cheat.h"
asm(".section .tbss,\"awT\",@nobits\n.globl much\n.balign 64\nmuch:\n.space 1<<40\n.text");
int main(void) { puts("nothing"); }
