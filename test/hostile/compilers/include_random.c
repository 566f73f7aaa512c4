// tries: have the compiler read noise without end, and complain of each byte
// outcome: failed|timed_out|out_of_memory|output_limit
#include "/dev/urandom"
int main(void) { return 0; }
