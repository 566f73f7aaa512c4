// tries: have the compiler read a file without end
// outcome: failed|timed_out|out_of_memory
#include "/dev/zero"
int main(void) { return 0; }
