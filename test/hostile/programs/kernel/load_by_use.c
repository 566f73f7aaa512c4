// tries: have the kernel load modules by asking for what they do
// outcome: succeeded
#include "hostile.h"
#include <linux/if_alg.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
static long size(void) {
	static char room[1 << 18];
	int fd = open("/proc/modules", O_RDONLY);
	long n = 0, m;
	while (fd >= 0 && (m = read(fd, room, sizeof room)) > 0) n += m;
	if (fd >= 0) close(fd);
	return n;
}
int main(void) {
	long before = size();
	int families[] = {AF_APPLETALK, AF_AX25, AF_ATMPVC, AF_X25, AF_ROSE, AF_RDS, AF_TIPC, AF_CAN, AF_PHONET, AF_IEEE802154, AF_KCM, AF_QIPCRTR, AF_SMC, AF_XDP, AF_DECnet, AF_LLC, AF_NFC};
	for (unsigned i = 0; i < sizeof families / sizeof *families; i++) for (int t = 1; t < 6; t++) close(socket(families[i], t, 0));
	int protocols[] = {IPPROTO_SCTP, IPPROTO_DCCP, IPPROTO_UDPLITE, 262, 115};
	for (unsigned i = 0; i < 5; i++) for (int t = 1; t < 7; t++) close(socket(AF_INET, t, protocols[i]));
	int s = socket(AF_INET, SOCK_STREAM, 0);
	const char *upper[] = {"tls", "smc", "espintcp", "mptcp"}, *control[] = {"dctcp", "bbr", "vegas", "westwood", "htcp", "cdg"};
	for (int i = 0; i < 4; i++) setsockopt(s, IPPROTO_TCP, TCP_ULP, upper[i], strlen(upper[i]));
	for (int i = 0; i < 6; i++) setsockopt(s, IPPROTO_TCP, TCP_CONGESTION, control[i], strlen(control[i]));
	const char *systems[] = {"btrfs", "xfs", "nfs", "cifs", "fuse", "squashfs", "udf", "hfsplus", "ntfs3", "erofs"};
	for (int i = 0; i < 10; i++) REFUSED(mount("none", "/tmp", systems[i], 0, NULL));
	if (size() != before) escaped("the list of modules went from %ld to %ld bytes", before, size());
	return contained();
}
