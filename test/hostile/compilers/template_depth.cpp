// tries: overflow the compiler's stack, whose limit of depth it cannot change itself
// outcome: failed|signaled|out_of_memory|timed_out
template <int n> struct Deep { static const int value = Deep<n + 1>::value; };
int main() { return Deep<0>::value; }
