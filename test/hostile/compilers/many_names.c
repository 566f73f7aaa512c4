// tries: have the compiler keep more names than it has memory for
// outcome: succeeded|failed|timed_out|out_of_memory|disk_limit
#define P_(a, b) a##b
#define P(a, b) P_(a, b)
#define N P(x, __COUNTER__)
#define A int N; int N; int N; int N; int N; int N; int N; int N; int N; int N;
#define B A A A A A A A A A A
#define C B B B B B B B B B B
#define D C C C C C C C C C C
D D D D D D D D D D
int main(void) { return 0; }
