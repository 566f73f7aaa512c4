// tries: be compiled to a gigabyte
// outcome: failed|timed_out|out_of_memory|disk_limit
char a[1 << 30] = {1};
int main(void) { return a[0]; }
