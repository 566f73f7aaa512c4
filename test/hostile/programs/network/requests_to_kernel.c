// tries: change its network by the requests that came before netlink
// outcome: succeeded
// gvisor: failed, its own stack takes settings of its own loopback
#include "hostile.h"
#include <net/if.h>
#include <net/route.h>
#include <linux/sockios.h>
#include <linux/if_tun.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
int main(void) {
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned long calls[] = {SIOCSIFADDR, SIOCSIFFLAGS, SIOCSIFMTU, SIOCSIFHWADDR, SIOCSIFNAME, SIOCSIFMAP, SIOCSIFTXQLEN, SIOCADDMULTI, SIOCBRADDBR, 0x89a2, 0x8983, 0x8940, SIOCSARP, SIOCDARP};
	for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
		struct ifreq r = {.ifr_flags = 0};
		strcpy(r.ifr_name, "lo");
		r.ifr_addr.sa_family = AF_INET;
		REFUSED(ioctl(s, calls[i], &r));
	}
	struct rtentry e = {.rt_flags = RTF_UP};
	e.rt_dst.sa_family = e.rt_genmask.sa_family = e.rt_gateway.sa_family = AF_INET;
	REFUSED(ioctl(s, SIOCADDRT, &e));
	REFUSED(open("/dev/net/tun", O_RDWR));
	REFUSED(setsockopt(s, SOL_SOCKET, SO_BINDTODEVICE, "eth0", 5));
	int one = 1;
	REFUSED(setsockopt(s, SOL_SOCKET, SO_MARK, &one, sizeof one));
	REFUSED(setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &one, sizeof one));
	REFUSED(setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &one, sizeof one));
	REFUSED(setsockopt(s, IPPROTO_IP, 19 /* IP_TRANSPARENT */, &one, sizeof one));
	return contained();
}
