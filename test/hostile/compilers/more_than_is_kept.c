// tries: be compiled to more than is kept, and less than its disk
// outcome: succeeded|failed|timed_out|out_of_memory|disk_limit
char a[150 << 20] = {1};
int main(void) { return a[0]; }
