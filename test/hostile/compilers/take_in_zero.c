// tries: take a file without end into its program
// outcome: failed|timed_out|out_of_memory|disk_limit
asm(".section .rodata\n.incbin \"/dev/zero\"\n.previous");
int main(void) { return 0; }
