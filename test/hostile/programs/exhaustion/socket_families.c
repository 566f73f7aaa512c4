// tries: take memory by sockets that no meter of sockets knows, of the kernel's ciphers, machines and buses
// outcome: succeeded
#include "hostile.h"
// AF_KEY, AF_TIPC, AF_CAN and others could be made on 5ee7338 where the kernel had them.
int main(void) {
	int plain[] = {AF_UNIX, AF_INET, AF_INET6, AF_NETLINK}, n = 0;
	for (int f = 3; f < 64; f++) {
		int known = 0;
		for (int i = 0; i < 4; i++) known |= f == plain[i];
		for (int type = 1; !known && type <= 5; type++) {
			errno = 0;
			int s = socket(f, type, 0);
			if (s >= 0 || errno == EAFNOSUPPORT || errno == EPROTONOSUPPORT || errno == ESOCKTNOSUPPORT) n++;
		}
	}
	if (n > 0) escaped("%d kinds of sockets are the kernel's to refuse", n);
	for (int protocol = 1; protocol < 32; protocol++)
		if (socket(AF_NETLINK, SOCK_RAW, protocol) >= 0) escaped("netlink protocol %d", protocol);
	return contained();
}
