// tries: have the compiler wait for a terminal, or for the other end of a pipe
// outcome: failed
#if __has_include("/dev/tty")
#include "/dev/tty"
#endif
#include "/proc/self/fd/1"
#error it is over
int main(void) { return 0; }
