/* What the parts of opening a channel know of each other. */
#ifndef CP_OPEN_H
#define CP_OPEN_H

#include "channel.h"
#include "name.h"
#include "shield.h"

/* What a program wants, checked. */
struct wanted {
	struct cp_name name;
	struct settings settings;
	uint64_t records; /* of a shard */
	char dir[3072];
	enum cp_policy policy;
	enum cp_stamp stamp;
};

/* cp_fail makes the channel say why it is a no-op. */
__attribute__((format(printf, 2, 3))) void cp_fail(struct channel *c, const char *format, ...);

/* The switching word of channels without a ring, which is their idle word. */
extern const uint64_t cp_no_word;

/* cp_choose_options checks the options. */
bool cp_choose_options(struct channel *c, const cp_options *o, struct wanted *w);

/* cp_measure says how many shards the ring has, and how many records a shard. */
bool cp_measure(struct channel *c, const cp_options *o, struct wanted *w);

/* cp_choose_directory finds the directory, makes it where there is none, and checks it. */
bool cp_choose_directory(struct channel *c, const cp_options *o, struct wanted *w);

/* cp_node_number reads the number that the directory was given. CP_MAX_NODE + 1: none. */
bool cp_node_number(struct channel *c, const char *dir, uint32_t *number);

/* cp_make_ring makes the ring's file. Channels are locked. */
bool cp_make_ring(struct channel *c, const struct wanted *w);

/* cp_lock_channels keeps others from opening, closing and forking, until cp_unlock_channels. */
void cp_lock_channels(struct shield *s);
void cp_unlock_channels(const struct shield *s);

/* cp_list puts a channel on the list of those with a ring, cp_unlist takes it off. Both: locked. */
void cp_list(struct channel *c);
void cp_unlist(struct channel *c);

/* cp_silence makes a channel a no-op. It does not touch the ring. */
void cp_silence(struct channel *c);

/* cp_follow_forks has children leave the rings to this process from now on. */
void cp_follow_forks(void);

#endif
