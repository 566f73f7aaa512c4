// tries: read a file of the host, by the path that it has there
// outcome: failed
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#include BAIT
#include "/proc/1/root" BAIT
int main(void) { return 0; }
