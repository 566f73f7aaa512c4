// tries: have the compiler warn without end, of a program that is right
// outcome: succeeded|timed_out|out_of_memory
#define A(x) x x x x x x x x x x
#define B(x) A(A(A(A(x))))
int main(void) { B({ int a = "a message that is long enough to be a burden to whoever has to carry it"; (void)a; }) return 0; }
