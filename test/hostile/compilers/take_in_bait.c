// tries: take a file of the host into its program
// outcome: failed
asm(".section .rodata\n.incbin \"" BAIT "\"\n.previous");
int main(void) { return 0; }
