// tries: take longer to die than the worker waits, with little time of a processor and much to take down; before the quota was lifted for the dying it took 293 s to be stopped after three
// outcome: timed_out|out_of_memory
// policy: {"wall": "3s", "cpu": 0.05, "processes": 128, "memory": "128Mi"}
#include "hostile.h"

int main(void) {
	for (int i = 0; i < 120; i++) {
		if (fork() == 0) {
			for (int j = 0; j < 3000; j++)
				mmap(NULL, 4096, j & 1 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE * !(j % 16), -1, 0);
			for (;;)
				pause();
		}
	}
	for (;;)
		pause();
}
