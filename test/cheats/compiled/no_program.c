// tries: be compiled to a program that begins nowhere
// outcome: failed
asm(".globl _init_nowhere\n.set _init_nowhere, 0");
__attribute__((constructor)) static void first(void) { ((void (*)(void))0)(); }
int main(void) { return 0; }
