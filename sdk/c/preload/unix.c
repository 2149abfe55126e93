/* This file knows what the kernel says about UNIX sockets. */
#include "preload.h"

#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/sockios.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* socket_found is what the kernel answers about a socket. */
struct socket_found {
	uint64_t cookie;
	uint32_t peer; /* inode; 0: not known */
};

/*
 * ask asks the kernel about the socket with the given inode. It makes the system calls directly.
 * Otherwise the library would log them as messages of the program. The kernel answers before the
 * sending call returns, so the receiving call need not wait.
 */
static bool ask(int netlink, uint32_t inode, struct socket_found *found)
{
	struct {
		struct nlmsghdr header;
		struct unix_diag_req request;
	} question = {
		.header = {.nlmsg_len = sizeof question, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			   .nlmsg_flags = NLM_F_REQUEST},
		.request = {.sdiag_family = AF_UNIX, .udiag_ino = inode, .udiag_states = ~0U,
			    .udiag_show = UDIAG_SHOW_PEER, .udiag_cookie = {~0U, ~0U}},
	};
	union {
		struct nlmsghdr header;
		char bytes[512];
	} answer;
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (syscall(SYS_sendto, netlink, &question, sizeof question, 0, &kernel, sizeof kernel) < 0)
		return false;
	long n = syscall(SYS_recvfrom, netlink, &answer, sizeof answer, MSG_DONTWAIT, NULL, NULL);
	if (n < 0 || !NLMSG_OK(&answer.header, (size_t)n) ||
	    answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    answer.header.nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg)))
		return false;
	const struct unix_diag_msg *message = NLMSG_DATA(&answer.header);
	const size_t header = sizeof(struct nlattr); /* its size is a multiple of 4 */
	size_t at = NLMSG_SPACE(sizeof *message);
	found->cookie = message->udiag_cookie[0] | (uint64_t)message->udiag_cookie[1] << 32;
	found->peer = 0;
	while (at + header + sizeof found->peer <= answer.header.nlmsg_len) {
		struct nlattr one;
		memcpy(&one, answer.bytes + at, sizeof one);
		if (one.nla_type == UNIX_DIAG_PEER)
			memcpy(&found->peer, answer.bytes + at + header, sizeof found->peer);
		if (one.nla_len < header)
			break;
		at += (one.nla_len + 3U) & ~3U;
	}
	return true;
}

uint64_t cp_peer(int fd)
{
	struct socket_found found = {0};
	struct stat at;

	if (fstat(fd, &at) != 0)
		return 0;
	int netlink = (int)syscall(SYS_socket, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC,
				   NETLINK_SOCK_DIAG);
	if (netlink < 0)
		return 0;
	uint32_t peer = ask(netlink, (uint32_t)at.st_ino, &found) ? found.peer : 0;
	if (peer == 0 || !ask(netlink, peer, &found))
		found.cookie = 0;
	syscall(SYS_close, netlink);
	return found.cookie;
}

bool cp_nothing_waits(int fd, int way)
{
	int bytes = 0;

	return ioctl(fd, way == SENT ? SIOCOUTQ : SIOCINQ, &bytes) == 0 && bytes == 0;
}
