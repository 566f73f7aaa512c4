// tries: have the compiler wait for somebody to write
// outcome: succeeded|failed
#include "/dev/stdin"
int main(void) { return 0; }
