// tries: have what it is compiled to lie elsewhere, by lines that name files
// outcome: succeeded|failed
#line 1 "/../../../../etc/passwd"
#pragma GCC pch_preprocess "/etc/passwd"
#pragma redefine_extname main elsewhere
asm(".file \"/etc/shadow\"\n.globl elsewhere\nelsewhere:\n");
int main(void) { return 0; }
