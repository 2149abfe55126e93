/* These are the types and functions that the parts of opening a channel share. */
#ifndef CP_OPEN_H
#define CP_OPEN_H

#include "channel.h"
#include "name.h"
#include "shield.h"

enum {
	CP_DIR_BYTES = 3072, /* for the path of a directory of rings */
	CP_WHY_BYTES = 512,  /* for the text that says why something failed */
};

/* wanted has the program's options after they were checked. */
struct wanted {
	struct cp_name name;
	struct settings settings;
	uint64_t records; /* number of records in each shard */
	char dir[CP_DIR_BYTES];
	enum cp_policy policy;
	enum cp_stamp stamp;
};

/* cp_fail sets the error that says why the channel is a no-op. */
__attribute__((format(printf, 2, 3))) void cp_fail(struct channel *c, const char *format, ...);

/* cp_choose_options checks the options and stores them in w. */
bool cp_choose_options(struct channel *c, const cp_options *o, struct wanted *w);

/*
 * cp_measure determines the number of shards in the ring, and the number of records in each shard.
 */
bool cp_measure(struct channel *c, const cp_options *o, struct wanted *w);

/*
 * cp_choose_directory finds the directory, makes it if it does not exist, and checks it. wanted may
 * be NULL. If cp_choose_directory returns false, it has written the reason to why.
 */
bool cp_choose_directory(const char *wanted, char dir[CP_DIR_BYTES], char why[CP_WHY_BYTES]);

/*
 * cp_node_number reads the node's number from the directory's file `node` into *number. If there is
 * no such file, it sets *number to CP_MAX_NODE + 1 and returns true. If it returns false, it has
 * written the reason to why.
 */
bool cp_node_number(const char *dir, uint32_t *number, char why[CP_WHY_BYTES]);

/* cp_make_ring makes the ring's file. The caller has called cp_lock_channels. */
bool cp_make_ring(struct channel *c, const struct wanted *w);

/*
 * cp_lock_channels keeps other threads from opening, closing and forking, until cp_unlock_channels.
 */
void cp_lock_channels(struct shield *s);
void cp_unlock_channels(const struct shield *s);

/*
 * cp_list adds a channel to the list of channels with a ring, and cp_unlist removes it. The caller
 * has called cp_lock_channels.
 */
void cp_list(struct channel *c);
void cp_unlist(struct channel *c);

/* cp_silence makes a channel a no-op. It does not access the ring. */
void cp_silence(struct channel *c);

/*
 * cp_prepare_process does what this process needs once, before anything else is opened. Children
 * give up this process's rings and ids from then on.
 */
void cp_prepare_process(void);

/* cp_follow_forks registers what happens at a fork. Only cp_prepare_process calls it. */
void cp_follow_forks(void);

/*
 * cp_give_up_ids makes the parent's ids no-ops in a child. The thread that forked has called
 * cp_lock_channels.
 */
void cp_give_up_ids(void);

#endif
