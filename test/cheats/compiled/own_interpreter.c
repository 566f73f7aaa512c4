// tries: name a loader of its own, which is not there, so that the fleet is to blame
// outcome: failed|compile_error
#include "cheat.h"
// It is read from the end by the linker's word for it, and only its beginning counts for the kernel.
asm(".section .interp,\"a\",@progbits\n.asciz \"/workspace/loader\"\n.previous");
int main(void) { puts("nothing"); }
