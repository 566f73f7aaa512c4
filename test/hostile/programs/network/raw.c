// tries: open raw and packet sockets
// outcome: succeeded
#include "hostile.h"
#include <netinet/in.h>
int main(void) {
	for (int protocol = 0; protocol < 256; protocol++) {
		REFUSED(socket(AF_INET, SOCK_RAW, protocol));
		REFUSED(socket(AF_INET6, SOCK_RAW, protocol));
	}
	REFUSED(socket(AF_PACKET, SOCK_RAW, htons(3)));
	REFUSED(socket(AF_PACKET, SOCK_DGRAM, htons(3)));
	REFUSED(socket(AF_PACKET, SOCK_PACKET, htons(3)));
	return contained();
}
