// tries: include itself without end
// outcome: failed
#include __FILE__
int main(void) { return 0; }
