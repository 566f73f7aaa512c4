// tries: become another program in the middle: one that ends well, whatever it was
// outcome: failed
#include <cstdio>
#include <unistd.h>
struct Early { Early() { execl("/bin/true", "true", (char *)0); } } early;
int main() { std::puts("nothing"); return 1; }
