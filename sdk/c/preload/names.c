/*
 * These functions replace those of the C library that find the addresses of a host name. They
 * remember the answers, so that a connection can be described with the name that the program used.
 */
#include "preload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

/*
 * This is a hash table of addresses. Entries are never removed or changed, so a reader needs no
 * lock. An address with several names has several entries. When MOST entries are used, further
 * names are not remembered.
 */
enum { ENTRIES = 1024, MOST = ENTRIES * 3 / 4 };
static struct entry {
	struct cp_address address;
	char name[CP_NAME + 1];
	bool used; /* the entry is complete. Atomic */
} all[ENTRIES];
static unsigned count; /* used entries; protected by cp_lock */

static unsigned place(const struct cp_address *a)
{
	uint64_t halves[2];

	memcpy(halves, a->bytes, sizeof halves);
	return (unsigned)(((halves[0] ^ halves[1] * 31) * UINT64_C(0x9E3779B97F4A7C15)) >> 32);
}

const char *cp_name_of(const struct cp_address *a, unsigned *at)
{
	for (unsigned from = place(a); *at < ENTRIES;) {
		struct entry *e = &all[(from + (*at)++) % ENTRIES];
		if (!__atomic_load_n(&e->used, __ATOMIC_ACQUIRE))
			break;
		if (memcmp(&e->address, a, sizeof *a) == 0)
			return e->name;
	}
	return NULL;
}

/* remember notes that a name has an address of 4 or 16 bytes. */
static void remember(const char *name, const void *bytes, unsigned length)
{
	struct cp_address a = {.bytes = {[10] = 0xff, [11] = 0xff}};
	const char *known;

	memcpy(a.bytes + sizeof a.bytes - length, bytes, length);
	if (strnlen(name, CP_NAME + 1) > CP_NAME || name[0] == 0 || !cp_alone())
		return;
	for (unsigned at = 0; (known = cp_name_of(&a, &at)) != NULL;)
		if (strcmp(known, name) == 0)
			return;
	sigset_t before = cp_lock();
	for (unsigned i = place(&a); count < MOST; i++) {
		struct entry *e = &all[i % ENTRIES];
		if (!e->used) {
			e->address = a;
			strcpy(e->name, name);
			__atomic_store_n(&e->used, true, __ATOMIC_RELEASE);
			count++;
			break;
		}
	}
	cp_unlock(before);
}

/* is_name returns false for the text of an address. */
static bool is_name(const char *text)
{
	struct in6_addr a;
	struct in_addr b;

	return text != NULL && strchr(text, '%') == NULL && inet_pton(AF_INET6, text, &a) != 1 &&
	       inet_aton(text, &b) == 0;
}

EXPORT int getaddrinfo(const char *name, const char *service, const struct addrinfo *hints,
		       struct addrinfo **found)
{
	NEXT(getaddrinfo);
	int r = real(name, service, hints, found);
	int error = errno;
	for (struct addrinfo *i = r == 0 && is_name(name) ? *found : NULL; i != NULL; i = i->ai_next)
		if (i->ai_family == AF_INET)
			remember(name, &((struct sockaddr_in *)(void *)i->ai_addr)->sin_addr, 4);
		else if (i->ai_family == AF_INET6)
			remember(name, &((struct sockaddr_in6 *)(void *)i->ai_addr)->sin6_addr, 16);
	errno = error;
	return r;
}

static void host(const char *name, const struct hostent *found)
{
	int error = errno;

	if (found != NULL && is_name(name) && (found->h_length == 4 || found->h_length == 16))
		for (char **a = found->h_addr_list; *a != NULL; a++)
			remember(name, *a, (unsigned)found->h_length);
	errno = error;
}

EXPORT struct hostent *gethostbyname(const char *name)
{
	NEXT(gethostbyname);
	struct hostent *found = real(name);
	host(name, found);
	return found;
}

EXPORT struct hostent *gethostbyname2(const char *name, int family)
{
	NEXT(gethostbyname2);
	struct hostent *found = real(name, family);
	host(name, found);
	return found;
}

EXPORT int gethostbyname_r(const char *name, struct hostent *to, char *room, size_t length,
			   struct hostent **found, int *why)
{
	NEXT(gethostbyname_r);
	int r = real(name, to, room, length, found, why);
	host(name, r == 0 ? *found : NULL);
	return r;
}

EXPORT int gethostbyname2_r(const char *name, int family, struct hostent *to, char *room,
			    size_t length, struct hostent **found, int *why)
{
	NEXT(gethostbyname2_r);
	int r = real(name, family, to, room, length, found, why);
	host(name, r == 0 ? *found : NULL);
	return r;
}
