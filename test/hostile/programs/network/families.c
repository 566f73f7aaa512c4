// tries: talk by every other family of sockets: to the hypervisor, to bluetooth, to the kernel
// outcome: succeeded
#include "hostile.h"
#include <linux/vm_sockets.h>
int main(void) {
	for (int family = 3; family < 46; family++) {
		if (family == AF_INET6 || family == AF_NETLINK || family == AF_ALG) continue;
		int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET, SOCK_RAW};
		for (int t = 0; t < 4; t++) {
			int fd = socket(family, types[t], 0);
			if (fd < 0) continue;
			if (family == AF_VSOCK) {
				for (unsigned cid = 0; cid < 4; cid++) {
					struct sockaddr_vm to = {.svm_family = AF_VSOCK, .svm_cid = cid, .svm_port = 22};
					if (connect(fd, (void *)&to, sizeof to) == 0) escaped("vsock %u", cid);
				}
			}
			struct { uint16_t f; char rest[126]; } any = {family};
			if (connect(fd, (void *)&any, sizeof any) == 0 && family != AF_UNSPEC) escaped("family %d", family);
			close(fd);
		}
	}
	return contained();
}
