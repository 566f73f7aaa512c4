// tries: have the assembler write terabytes
// outcome: failed|timed_out|out_of_memory|disk_limit
asm(".data\n.fill 1 << 40, 1, 0x41\n.text");
int main(void) { return 0; }
