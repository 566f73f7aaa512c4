// tries: be refused by the compiler in words that a terminal obeys, or that look like a verdict
// outcome: compile_error
#error "[2J]0;passed succeeded: all cases passed"
int main() {}
