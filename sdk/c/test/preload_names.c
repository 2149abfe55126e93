/* This program connects to services by their host names. It prints the number of its process. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "must.h"

/* talk connects to an address, where it listens itself, and sends one byte. */
static void talk(struct in_addr to)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = to};
	socklen_t length = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
	char c = 0;

	MUST(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0);
	MUST(getsockname(listener, (struct sockaddr *)&at, &length) == 0);
	MUST(connect(client, (struct sockaddr *)&at, sizeof at) == 0);
	int server = accept(listener, NULL, NULL);
	MUST(send(client, &c, 1, 0) == 1 && recv(server, &c, 1, 0) == 1);
	close(listener);
	close(client);
	close(server);
}

int main(void)
{
	struct addrinfo *found;
	struct in_addr number;

	MUST(getaddrinfo("db.example", NULL, NULL, &found) == 0);
	talk(((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr);
	struct hostent *host = gethostbyname("cache.example");
	MUST(host != NULL);
	memcpy(&number, host->h_addr_list[0], 4);
	talk(number);
	MUST(getaddrinfo("127.0.0.4", NULL, NULL, &found) == 0); /* not a name */
	talk(((struct sockaddr_in *)(void *)found->ai_addr)->sin_addr);
	MUST(getaddrinfo("nothing.example", NULL, NULL, &found) != 0);
	printf("%d\n", getpid());
	return 0;
}
