// tries: have the assembler repeat a line without end
// outcome: failed|timed_out|out_of_memory|disk_limit
asm(".macro m n\n.rept 1000000\n.rept 1000000\n.quad \\n, 1, 2, 3\n.endr\n.endr\n.endm\nm 7");
int main(void) { return 0; }
