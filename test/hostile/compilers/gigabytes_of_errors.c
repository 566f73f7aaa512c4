// tries: have the compiler complain without end
// outcome: failed|timed_out|out_of_memory|output_limit
#define A(x) x x x x x x x x x x
#define B(x) A(A(A(A(A(x)))))
#pragma GCC diagnostic error "-Wall"
int main(void) { B(undeclared = "a message that is long enough to be a burden to whoever has to carry it" * 1;) return 0; }
