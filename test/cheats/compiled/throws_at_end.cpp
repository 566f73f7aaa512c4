// tries: end in every wrong way at once, after it has said what it has to say
// outcome: failed
#include <cstdio>
#include <cstdlib>
#include <exception>
struct Late { ~Late() noexcept(false) { throw 42; } };
static Late late;
int main() { std::set_terminate([] { std::_Exit(0); }); std::puts("accepted"); throw 1; }
