// tries: nothing: it knows the answer, which is what it reads
// outcome: succeeded
#include "cheat.h"
int main(void) { char line[64]; if (fgets(line, sizeof line, stdin)) fputs(line, stdout); }
