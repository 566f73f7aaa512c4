// tries: read the passwords of the host, and of the image
// outcome: failed
#include "/etc/shadow"
#include "/proc/1/root/etc/shadow"
#include "/proc/1/environ"
int main(void) { return 0; }
