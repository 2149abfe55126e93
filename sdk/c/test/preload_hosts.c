/* This library answers what addresses some host names have, without a network. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		struct addrinfo **found)
{
	static struct sockaddr_in at;
	static struct addrinfo only;

	(void)service;
	(void)hints;
	at = (struct sockaddr_in){.sin_family = AF_INET};
	if (inet_pton(AF_INET, name, &at.sin_addr) != 1 &&
	    (strcmp(name, "db.example") != 0 || inet_pton(AF_INET, "127.0.0.2", &at.sin_addr) != 1))
		return EAI_NONAME;
	only = (struct addrinfo){.ai_family = AF_INET,
				 .ai_addrlen = sizeof at,
				 .ai_addr = (struct sockaddr *)&at};
	*found = &only;
	return 0;
}

struct hostent *gethostbyname(const char *name)
{
	static char address[4];
	static char *list[2];
	static struct hostent only;

	if (strcmp(name, "cache.example") != 0 || inet_pton(AF_INET, "127.0.0.3", address) != 1)
		return NULL;
	list[0] = address;
	only = (struct hostent){.h_addrtype = AF_INET, .h_length = 4, .h_addr_list = list};
	return &only;
}
