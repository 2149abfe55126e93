/*
 * New settings: the library checks them like any untrusted input, prepares them so that no log call
 * needs a division, and notes them in the journal.
 */
#include "channel.h"
#include "shield.h"

bool cp_valid_settings(struct settings s)
{
	switch (s.kind) {
	case CP_NULL:
	case CP_ID:
	case CP_BUFFERED:
	case CP_FIRST_LAST:
	case CP_LINK:
		return s.a == 0 && s.b == 0;
	case CP_COUNTER:
		return s.a >= 1000000 && s.a <= UINT64_C(1) << 62 && s.b == 0;
	case CP_DOWNSAMPLE:
		return s.a >= 1 && s.b == 0;
	case CP_XOY:
		return s.b >= 1 && s.a <= s.b;
	}
	return false;
}

/*
 * load reads the settings that the switching word points to. If the word and its slot contradict
 * each other, load returns settings that are not valid.
 */
static struct settings load(struct channel *c, uint64_t *word)
{
	struct settings s = {.kind = CP_KINDS, .a = 0, .b = 0};
	struct control *control = &c->header->control;

	*word = 0;
	for (int patience = 10000; patience > 0; patience--) {
		uint64_t w = LOAD(c->word);
		struct slot *slot = &control->slot[w % CP_SLOTS];
		s.kind = LOAD(&slot->kind);
		s.a = LOAD(&slot->a);
		s.b = LOAD(&slot->b);
		*word = w;
		/*
		 * Nobody writes to a slot that the word points to. So if the word has not changed,
		 * the slot has not changed either.
		 */
		if (LOAD(c->word) != w)
			continue;
		if (s.kind != (w >> 8 & 0xFF) || (w & 0xFF) >= CP_SLOTS)
			s.kind = CP_KINDS;
		return s;
	}
	s.kind = CP_KINDS;
	return s;
}

static void thin_out(struct adopted *set, uint64_t below, uint64_t modulus)
{
	set->below = below;
	set->modulus = modulus;
	set->reciprocal = UINT64_MAX / modulus;
}

static struct adopted prepare(struct settings s, uint64_t word)
{
	struct adopted set = {
		.seq = 0, .word = word, .kind = s.kind, .reciprocal = 0, .modulus = 1, .below = 0};

	if (s.kind == CP_DOWNSAMPLE)
		thin_out(&set, 1, s.a);
	else if (s.kind == CP_XOY)
		thin_out(&set, s.a, s.b);
	return set;
}

/*
 * adopt notes settings in the journal and makes log calls use them. The caller must be the only
 * thread that adopts settings now.
 */
static struct adopted adopt(struct channel *c, struct settings s, uint64_t word, uint64_t counter)
{
	struct adopted set = prepare(s, word);

	/*
	 * A word of 0 would mark the entry as unfinished. If damage has made the word 0, note 1
	 * instead.
	 */
	for (unsigned i = 0; i < c->shard_count; i++)
		cp_journal(&c->shards[i], word != 0 ? word : 1, s, counter);

	/* While the settings change, no word matches: log calls go to cp_adopt and wait there. */
	POKE(&c->hot.plain, cp_never_word);
	POKE(&c->recording, cp_never_word);
	POKE(&c->counting, cp_never_word);
	POKE(&c->hot.idle, cp_never_word);
	if (!c->many)
		c->hot.next = c->hot.end = NULL;
	uint64_t seq = PEEK(&c->set.seq);
	POKE(&c->set.seq, seq + 1);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	POKE(&c->set.word, set.word);
	POKE(&c->set.kind, set.kind);
	POKE(&c->set.reciprocal, set.reciprocal);
	POKE(&c->set.modulus, set.modulus);
	POKE(&c->set.below, set.below);
	STORE(&c->set.seq, seq + 2);
	POKE(&c->calls, 0);
	if (s.kind == CP_NULL) {
		POKE(&c->hot.idle, word);
	} else if (s.kind == CP_COUNTER) {
		POKE(&c->counting, word);
	} else if (s.kind == CP_ID || s.kind == CP_BUFFERED) {
		POKE(&c->recording, word);
		if (!c->many && !c->unordered)
			POKE(&c->hot.plain, word);
	}
	return set;
}

void cp_adopt_chosen(struct channel *c, struct settings s, uint64_t word, uint64_t counter)
{
	adopt(c, s, word, counter);
}

struct adopted cp_adopt(struct channel *c)
{
	struct shield shield;
	uint64_t word;

	/*
	 * The shield keeps signal handlers out. A handler that logs would wait for a lock of its
	 * own thread.
	 */
	cp_shield_up(&shield);
	pthread_mutex_lock(&c->changes);
	struct settings s = load(c, &word);
	struct adopted set = c->set;
	/* If the words are equal, another thread has already adopted the settings. */
	if (set.word != word) {
		bool suits = s.kind == CP_NULL || (s.kind == CP_LINK) == c->links;
		if (!cp_valid_settings(s) || !suits) {
			cp_raise(c, CP_BAD_SETTINGS);
			s = (struct settings){CP_NULL, 0, 0};
		}
		set = adopt(c, s, word, cp_counter());
	}
	pthread_mutex_unlock(&c->changes);
	cp_shield_down(&shield);
	return set;
}
