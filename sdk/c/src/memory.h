/* Whether there is memory for a ring, before the kernel is asked for it. */
#ifndef CP_MEMORY_H
#define CP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* cp_kept_in_memory reports whether the file system of this file has nothing but memory. */
bool cp_kept_in_memory(int fd);

/*
 * cp_memory_left reports whether the control groups of this process, and the machine, have memory
 * for so many bytes. If not, it says why. The kernel gives no error where shared memory exceeds a
 * group's limit: it ends a process of the group. Others may take the memory after this look.
 *
 * root is "" but in tests. What cannot be read below it counts as no limit. CheckMemory of the Go
 * package ring does the same.
 */
bool cp_memory_left(const char *root, size_t bytes, char *why, size_t n);

#endif
