/*
 * These functions check whether there is memory for a ring, before the library asks the kernel for
 * it.
 */
#ifndef CP_MEMORY_H
#define CP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* cp_kept_in_memory reports whether the file system of this file keeps files only in memory. */
bool cp_kept_in_memory(int fd);

/*
 * cp_memory_left reports whether the machine and the control groups of this process have this many
 * bytes left. If not, it says why. If shared memory exceeds a group's limit, the kernel returns no
 * error: it ends a process of the group. Other processes may take the memory after this check.
 *
 * root is "" except in tests. If a file below root cannot be read, it sets no limit. CheckMemory in
 * the Go package ring makes the same check.
 */
bool cp_memory_left(const char *root, size_t bytes, char *why, size_t n);

#endif
