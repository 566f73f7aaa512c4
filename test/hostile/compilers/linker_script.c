// tries: give the linker orders in the sections of its program
// outcome: succeeded|failed
asm(".section .drectve\n.ascii \"-o /tmp/x -T /workspace/script\"\n.section .deplibs,\"MS\",@progbits,1\n.asciz \"/etc/shadow\"\n.previous");
asm(".symver main, main@@V\n");
int main(void) { return 0; }
