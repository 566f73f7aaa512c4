// tries: have the compiler make more types than it has memory for
// outcome: failed|timed_out|out_of_memory
template <int depth, int path> struct Bomb { typename Bomb<depth - 1, path * 2>::type left; typename Bomb<depth - 1, path * 2 + 1>::type right; using type = Bomb; };
template <int path> struct Bomb<0, path> { using type = Bomb; };
int main() { return sizeof(Bomb<28, 1>) > 1; }
