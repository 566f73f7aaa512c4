// tries: burn more time than it may
// outcome: timed_out
// policy: {"cpu_time": "500ms"}
#include "hostile.h"
int main(void) { for (;;) ; }
