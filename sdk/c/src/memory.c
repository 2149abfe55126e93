/* These functions find out how much memory the control groups and the machine have left. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "memory.h"

#define TMPFS 0x01021994
#define RAMFS 0x858458f6

bool cp_kept_in_memory(int fd)
{
	struct statfs s;

	return fstatfs(fd, &s) == 0 && ((uint32_t)s.f_type == TMPFS || (uint32_t)s.f_type == RAMFS);
}

/*
 * This type names the files in which a version of control groups says what a group uses and may
 * use. cache names lines of memory.stat. These lines count memory that the kernel reclaims before
 * it ends a process.
 */
struct files {
	const char *mount, *limit, *usage, *cache[3];
};

static const struct files v2 = {
	.mount = "/sys/fs/cgroup",
	.limit = "memory.max",
	.usage = "memory.current",
	.cache = {"active_file", "inactive_file", "slab_reclaimable"},
};
static const struct files v1 = {
	.mount = "/sys/fs/cgroup/memory",
	.limit = "memory.limit_in_bytes",
	.usage = "memory.usage_in_bytes",
	.cache = {"total_active_file", "total_inactive_file", ""},
};

static bool read_number(const char *path, int64_t *number)
{
	FILE *f = fopen(path, "re");
	bool ok = f != NULL && fscanf(f, "%" SCNd64, number) == 1;

	if (f != NULL)
		fclose(f);
	return ok;
}

/*
 * statistic finds the number that follows a name, in a file with one name and one number on each
 * line.
 */
static bool statistic(const char *path, const char *name, int64_t *number)
{
	char line[256], word[128];
	bool found = false;
	FILE *f = fopen(path, "re");

	while (!found && f != NULL && fgets(line, sizeof(line), f) != NULL)
		found = sscanf(line, "%127s %" SCNd64, word, number) == 2 &&
			strcmp(word, name) == 0;
	if (f != NULL)
		fclose(f);
	return found;
}

/*
 * group_left returns how many bytes a group may still take, and its limit. It returns INT64_MAX if
 * the limit is "max", or if it cannot read a number.
 */
static int64_t group_left(const char *root, const struct files *files, const char *group,
			  int64_t *limit)
{
	char path[8192];
	int64_t usage, cached;

	snprintf(path, sizeof(path), "%s%s%s/%s", root, files->mount, group, files->limit);
	if (!read_number(path, limit))
		return INT64_MAX;
	snprintf(path, sizeof(path), "%s%s%s/%s", root, files->mount, group, files->usage);
	if (!read_number(path, &usage))
		return INT64_MAX;
	snprintf(path, sizeof(path), "%s%s%s/memory.stat", root, files->mount, group);
	for (int i = 0; i < 3; i++)
		if (statistic(path, files->cache[i], &cached))
			usage -= cached;
	return *limit - usage;
}

/*
 * controller splits a line of /proc/self/cgroup, "hierarchy:controllers:path". It returns the files
 * of the version of control groups from which the line comes, or NULL if the line is not about
 * memory.
 */
static const struct files *controller(char *line, char **path)
{
	char *controllers = strchr(line, ':'), *word, *rest = NULL;

	if (controllers == NULL || (*path = strchr(controllers + 1, ':')) == NULL)
		return NULL;
	*controllers++ = '\0';
	*(*path)++ = '\0';
	(*path)[strcspn(*path, "\n")] = '\0';
	if (strcmp(line, "0") == 0 && *controllers == '\0')
		return &v2;
	word = strtok_r(controllers, ",", &rest);
	for (; word != NULL; word = strtok_r(NULL, ",", &rest))
		if (strcmp(word, "memory") == 0)
			return &v1;
	return NULL;
}

bool cp_memory_left(const char *root, size_t bytes, char *why, size_t n)
{
	/*
	 * The ring needs this memory, the kernel needs page tables, and the program needs some
	 * memory to continue.
	 */
	int64_t wanted = (int64_t)(bytes + bytes / 64 + (1 << 20));
	char line[5000], path[4096];
	bool enough = true;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	FILE *groups = fopen(path, "re");
	while (enough && groups != NULL && fgets(line, sizeof(line), groups) != NULL) {
		char *group;
		const struct files *files = controller(line, &group);
		if (files == NULL)
			continue;
		/* Skip "/..", which leads to groups outside of this namespace: no file is there. */
		while (strncmp(group, "/..", 3) == 0 && (group[3] == '/' || group[3] == '\0'))
			group += 3;
		/*
		 * In a container, the mounted tree of groups may begin at the container's own
		 * group, while the path is that of the host. Then nothing is at the path. The loop
		 * ends at "", the root, which is the container's group.
		 */
		for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
			int64_t limit = 0, left;
			if (end == NULL)
				break;
			*end = '\0';
			left = group_left(root, files, group, &limit);
			if (left < wanted) {
				snprintf(why, n,
					 "%zu bytes of shared memory, and control group \"%s\" has "
					 "%" PRId64 " left (%s %" PRId64 "): "
					 "ask for less, or raise the group's limit",
					 bytes, *group == '\0' ? "/" : group, left < 0 ? 0 : left,
					 files->limit, limit);
				enough = false;
				break;
			}
		}
	}
	if (groups != NULL)
		fclose(groups);
	if (!enough)
		return false;
	snprintf(path, sizeof(path), "%s/proc/meminfo", root);
	int64_t available_kB;
	if (statistic(path, "MemAvailable:", &available_kB) && available_kB * 1024 < wanted) {
		snprintf(why, n,
			 "%zu bytes of shared memory, and this machine has %" PRId64 " available: "
			 "ask for less, or make room",
			 bytes, available_kB * 1024);
		return false;
	}
	return true;
}
