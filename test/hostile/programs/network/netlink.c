// tries: make interfaces, routes and addresses of its own
// outcome: succeeded
#include "hostile.h"
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
static int ask(int type, int flags, void *body, size_t n) {
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
	if (fd < 0) return -1;
	char room[8192] = {0};
	struct nlmsghdr *h = (void *)room;
	h->nlmsg_len = NLMSG_LENGTH(n); h->nlmsg_type = type; h->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	memcpy(NLMSG_DATA(h), body, n);
	struct timeval t = {1, 0};
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t);
	if (send(fd, room, h->nlmsg_len, 0) < 0 || recv(fd, room, sizeof room, 0) < 0) return -1;
	struct nlmsgerr *e = NLMSG_DATA(h);
	close(fd);
	return h->nlmsg_type == NLMSG_ERROR && e->error == 0 ? 0 : -1;
}
int main(void) {
	struct ifinfomsg up = {.ifi_index = 1, .ifi_flags = 0, .ifi_change = 1};
	REFUSED(ask(RTM_NEWLINK, 0, &up, sizeof up));
	REFUSED(ask(RTM_DELLINK, 0, &up, sizeof up));
	struct ifaddrmsg a = {AF_INET, 8, 0, 0, 1};
	REFUSED(ask(RTM_NEWADDR, NLM_F_CREATE, &a, sizeof a));
	struct rtmsg r = {.rtm_family = AF_INET, .rtm_table = RT_TABLE_MAIN, .rtm_type = RTN_UNICAST};
	REFUSED(ask(RTM_NEWROUTE, NLM_F_CREATE, &r, sizeof r));
	for (int protocol = 1; protocol < 32; protocol++) {
		int fd = socket(AF_NETLINK, SOCK_RAW, protocol);
		if (fd >= 0) close(fd);
	}
	return contained();
}
