/*
 * These functions find the directory of the node's rings, and the node's number in that directory.
 */
#define _GNU_SOURCE /* for O_NOFOLLOW */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "open.h"

/* explain writes why something failed, and returns false. */
__attribute__((format(printf, 2, 3))) static bool explain(char *why, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, CP_WHY_BYTES, format, args);
	va_end(args);
	return false;
}

/*
 * make_directory makes the directory, private to this user, if it does not exist. Then it checks
 * the directory.
 */
static bool make_directory(const char *dir, char *why)
{
	char path[CP_DIR_BYTES];
	struct stat st;

	for (size_t i = 1; i <= strlen(dir); i++) {
		if (dir[i] != '/' && dir[i] != '\0')
			continue;
		memcpy(path, dir, i);
		path[i] = '\0';
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return explain(why,
				       "make ring directory \"%s\": %s: "
				       "set CLOUDPROFILER_DIR to a place where this user may write",
				       dir, strerror(errno));
	}
	if (lstat(dir, &st) != 0)
		return explain(why, "check ring directory \"%s\": %s", dir, strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return explain(why,
			       "check ring directory \"%s\": it is no directory, or a symbolic "
			       "link: remove it or set CLOUDPROFILER_DIR",
			       dir);
	if (st.st_uid != geteuid())
		return explain(why,
			       "check ring directory \"%s\": it belongs to user %u and this is "
			       "user %u: set CLOUDPROFILER_DIR to a directory of your own",
			       dir, st.st_uid, geteuid());
	if (st.st_mode & 022)
		return explain(why,
			       "check ring directory \"%s\": others may write to it (mode %#o): "
			       "chmod 700 it",
			       dir, st.st_mode & 0777);
	return true;
}

bool cp_choose_directory(const char *wanted, char dir[CP_DIR_BYTES], char why[CP_WHY_BYTES])
{
	const char *from = wanted != NULL && *wanted != '\0' ? wanted : getenv("CLOUDPROFILER_DIR");
	int n;

	if (from != NULL && *from != '\0')
		n = snprintf(dir, CP_DIR_BYTES, "%s", from);
	else
		n = snprintf(dir, CP_DIR_BYTES, "/dev/shm/cloudprofiler-%u", geteuid());
	if (n < 0 || n >= CP_DIR_BYTES)
		return explain(why, "ring directory \"%.40s...\": %d bytes, at most %d", dir, n,
			       CP_DIR_BYTES - 1);
	/* lstat would follow a symbolic link if the name ended in a slash. */
	while (n > 1 && dir[n - 1] == '/')
		dir[--n] = '\0';
	return make_directory(dir, why);
}

/*
 * read_node reads the file with the node's number into text. If there is no file, text becomes "".
 * read_node returns NULL, or what is wrong. Any program of the user can write to the directory. So
 * read_node reads only a short regular file: an open of a FIFO would wait for ever, and a link may
 * lead anywhere.
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
	if (n == 0 || strlen(text) != (size_t)n) /* the file is empty, or contains a zero byte */
		return "not a number";
	return NULL;
}

bool cp_node_number(const char *dir, uint32_t *number, char why[CP_WHY_BYTES])
{
	char path[CP_DIR_BYTES + 16], text[CP_MAX_NODE_BYTES + 2], *end;
	const char *wrong;

	*number = CP_MAX_NODE + 1;
	snprintf(path, sizeof(path), "%s/node", dir);
	if ((wrong = read_node(path, text)) != NULL)
		return explain(why, "read node number from \"%s\": %s", path, wrong);
	if (text[0] == '\0')
		return true;
	long v = strtol(text, &end, 10);
	if (end == text || end[strspn(end, " \t\n\v\f\r")] != '\0' || v < 0 || v > CP_MAX_NODE)
		return explain(why,
			       "read node number from \"%s\": \"%.20s\" is not a number "
			       "from 0 to %d",
			       path, text, CP_MAX_NODE);
	*number = (uint32_t)v;
	return true;
}
