/* The directory of the node's rings, and the node's number in it. */
#define _GNU_SOURCE /* O_NOFOLLOW */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"

/* make_directory makes the directory where there is none, private to this user, and checks it. */
static bool make_directory(struct channel *c, const char *dir)
{
	char path[3072];
	struct stat st;

	for (size_t i = 1; i <= strlen(dir); i++) {
		if (dir[i] != '/' && dir[i] != '\0')
			continue;
		memcpy(path, dir, i);
		path[i] = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST) {
			cp_fail(c, "make ring directory \"%s\": %s: "
				   "set CLOUDPROFILER_DIR to a place where this user may write",
				dir, strerror(errno));
			return false;
		}
	}
	if (lstat(dir, &st) != 0) {
		cp_fail(c, "check ring directory \"%s\": %s", dir, strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		cp_fail(c, "check ring directory \"%s\": it is no directory, or a symbolic link: "
			   "remove it or set CLOUDPROFILER_DIR",
			dir);
	else if (st.st_uid != geteuid())
		cp_fail(c, "check ring directory \"%s\": it belongs to user %u "
			   "and this is user %u: set CLOUDPROFILER_DIR to a directory of your own",
			dir, st.st_uid, geteuid());
	else if (st.st_mode & 022)
		cp_fail(c, "check ring directory \"%s\": others may write to it (mode %#o): "
			   "chmod 700 it",
			dir, st.st_mode & 0777);
	else
		return true;
	return false;
}

bool cp_choose_directory(struct channel *c, const cp_options *o, struct wanted *w)
{
	const char *dir = o->dir != NULL && *o->dir != '\0' ? o->dir : getenv("CLOUDPROFILER_DIR");
	int n;

	if (dir != NULL && *dir != '\0')
		n = snprintf(w->dir, sizeof(w->dir), "%s", dir);
	else
		n = snprintf(w->dir, sizeof(w->dir), "/dev/shm/cloudprofiler-%u", geteuid());
	if (n < 0 || (size_t)n >= sizeof(w->dir)) {
		cp_fail(c, "ring directory \"%.40s...\": %d bytes, at most %zu", w->dir, n,
			sizeof(w->dir) - 1);
		return false;
	}
	while (n > 1 && w->dir[n - 1] == '/') /* a slash at the end would follow a link */
		w->dir[--n] = '\0';
	return make_directory(c, w->dir);
}

/*
 * read_node reads the file with the node's number into text, or "" where there is none. It returns
 * NULL, or what is wrong. Programs write to the directory, so it reads nothing but a short regular
 * file: an open of a FIFO would wait for ever, and a link may lead anywhere.
 */
static const char *read_node(const char *path, char text[CP_MAX_NODE_BYTES + 2])
{
	struct stat st;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	text[0] = '\0';
	if (fd < 0 && errno == ENOENT)
		return NULL;
	if (fd < 0)
		return errno == ELOOP ? "it is a symbolic link" : strerror(errno);
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return "not a regular file";
	}
	n = read(fd, text, CP_MAX_NODE_BYTES + 1);
	text[n > 0 ? n : 0] = '\0';
	const char *why = n < 0 ? strerror(errno) : NULL;
	close(fd);
	if (why != NULL)
		return why;
	if (n > CP_MAX_NODE_BYTES)
		return "more than 64 bytes";
	if (n == 0 || strlen(text) != (size_t)n) /* nothing, or a zero byte */
		return "not a number";
	return NULL;
}

bool cp_node_number(struct channel *c, const char *dir, uint32_t *number)
{
	char path[3200], text[CP_MAX_NODE_BYTES + 2], *end;
	const char *why;

	*number = CP_MAX_NODE + 1;
	snprintf(path, sizeof(path), "%s/node", dir);
	if ((why = read_node(path, text)) != NULL) {
		cp_fail(c, "read node number from \"%s\": %s", path, why);
		return false;
	}
	if (text[0] == '\0')
		return true;
	long v = strtol(text, &end, 10);
	if (end == text || end[strspn(end, " \t\n\v\f\r")] != '\0' || v < 0 || v > CP_MAX_NODE) {
		cp_fail(c, "read node number from \"%s\": \"%.20s\" is not a number from 0 to %d",
			path, text, CP_MAX_NODE);
		return false;
	}
	*number = (uint32_t)v;
	return true;
}
