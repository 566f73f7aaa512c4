// tries: have the compiler compute a constant without end
// outcome: failed|timed_out|out_of_memory
constexpr unsigned f(unsigned n) { unsigned s = 0; for (unsigned i = 0; i < 4000000000u; i++) s += i ^ n; return s; }
static_assert(f(1) != f(2) + f(3));
template <unsigned n> struct Each { static constexpr unsigned value = f(n) + Each<n - 1>::value; };
template <> struct Each<0> { static constexpr unsigned value = 0; };
int main() { return Each<800>::value; }
