// tries: have the compiler write a type whose name has gigabytes
// outcome: failed|timed_out|out_of_memory|output_limit
template <class A, class B> struct Pair {};
template <int n> struct Name { using type = Pair<typename Name<n - 1>::type, typename Name<n - 1>::type>; };
template <> struct Name<0> { using type = int; };
int main() { Name<26>::type x = 1; }
