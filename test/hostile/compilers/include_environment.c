// tries: read secrets in the environment of the compiler, and of whoever started it
// outcome: failed
#include "/proc/self/environ"
#include "/proc/1/environ"
#include "/proc/2/environ"
#error it is over
int main(void) { return 0; }
