// tries: hold more memory than its limit in connections to itself that it accepts when they are full
// outcome: succeeded|out_of_memory
// at gvisor: connections are those of the sandbox's own network stack, and their buffers are its memory: so many that they do not fit into it, its kernel's part included
#include "hostile.h"
// Worked on 81acd93 with cgroup v1, at cell and task: whatever is in a connection is let in above the limit when it is accepted.
int main(void) {
	long long held = fill_connections(100, 1);
	hold();
	if (held > most_memory()) escaped("%lld MiB in connections", held >> 20);
	return contained();
}
