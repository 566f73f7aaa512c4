// tries: write a megabyte of zeros and of empty lines
// outcome: succeeded
#include "hostile.h"
int main(void) {
	static char zero[1 << 20], lines[1 << 20];
	memset(lines, '\n', sizeof lines);
	fwrite(zero, 1, sizeof zero, stdout);
	fwrite(lines, 1, sizeof lines, stdout);
	return contained();
}
