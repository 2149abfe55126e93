/* Whether there is memory for a ring, before the kernel is asked for it. */
#ifndef CP_MEMORY_H
#define CP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* cp_kept_in_memory: the pages of this file's file system have nowhere to go but memory. */
bool cp_kept_in_memory(int fd);

/*
 * cp_memory_left refuses what the control groups of this process, or the machine, have no memory for, and says why. Shared memory that
 * is asked for beyond a group's limit is no error to the kernel: it ends a process of the group. root is "" but in tests; what cannot be read
 * below it is taken for no limit. Others can take the memory between this look and the use. CheckMemory of the Go package ring is the same.
 */
bool cp_memory_left(const char *root, size_t bytes, char *why, size_t n);

#endif
