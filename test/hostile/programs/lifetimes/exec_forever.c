// tries: execute itself again and again, so that no two looks see one process
// outcome: timed_out
// policy: {"wall": "1s"}
#include "hostile.h"
int main(void) { execl("/proc/self/exe", "again", NULL); return 1; }
