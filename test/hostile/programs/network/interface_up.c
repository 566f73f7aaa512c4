// tries: make a tunnel, rename and reconfigure interfaces
// outcome: succeeded
// gvisor: failed, its kernel has a /dev/net/tun that leads nowhere
#include "hostile.h"
#include <net/if.h>
#include <sys/ioctl.h>
int main(void) {
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct ifreq r = {0};
	strcpy(r.ifr_name, "lo");
	REFUSED(ioctl(fd, SIOCSIFFLAGS, &r));
	REFUSED(ioctl(fd, SIOCSIFADDR, &r));
	REFUSED(ioctl(fd, SIOCSIFMTU, &r));
	REFUSED(ioctl(fd, SIOCSIFNAME, &r));
	REFUSED(open("/dev/net/tun", O_RDWR));
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5));
	int one = 1;
	REFUSED(setsockopt(fd, SOL_SOCKET, SO_MARK, &one, sizeof one));
	return contained();
}
