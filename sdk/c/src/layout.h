/*
 * This is the layout of a ring file, version 3, as in ring/FORMAT.md. The assertions check the
 * offset of every field.
 */
#ifndef CP_LAYOUT_H
#define CP_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "cloudprofiler.h"

enum {
	CP_VERSION = 3,
	CP_PAGE = 4096,
	CP_SLOTS = 8,
	CP_JOURNAL = 16,
	CP_DROPS = 64,
	CP_MIN_RECORDS = 16,
	CP_MAX_RECORDS = 1 << 28,
	CP_MAX_SHARDS = 64,
	CP_MAX_NAME = 128,
	CP_MAX_NODE = (1 << 14) - 1,
	CP_MAX_NODE_BYTES = 64, /* largest size of the file with the node's number */
	CP_MAX_INSTANCE = (1 << 10) - 1,
};

#define CP_LAP_BIT (UINT64_C(1) << 63)

enum cp_flag { CP_BAD_SETTINGS = 1, CP_MISUSE = 2, CP_CLOSED = 4 };
enum cp_kind {
	CP_NULL,
	CP_ID,
	CP_BUFFERED,
	CP_COUNTER,
	CP_DOWNSAMPLE,
	CP_XOY,
	CP_FIRST_LAST,
	CP_LINK,
	CP_KINDS
};
enum cp_policy { CP_BLOCK, CP_DROP, CP_OVERWRITE, CP_POLICIES };
enum cp_stamp { CP_RDTSCP, CP_RDTSC, CP_STAMPS };

struct identity {
	char magic[8];
	uint32_t version, shards;
	uint64_t records, file_bytes;
	uint8_t incarnation[16], boot[16];
	uint64_t opened_counter;
	int64_t opened_utc_lo_ns, opened_utc_hi_ns;
	uint32_t pid, node_number;
	uint8_t many_writers, policy, stamp, name_bytes, links, zero0[3];
	char name[CP_MAX_NAME];
	uint64_t pid_namespace;
	uint8_t zero1[8];
	uint32_t checksum;
	uint8_t zero2[4];
};

struct slot {
	uint64_t kind, a, b, zero;
};

struct control {
	uint64_t word;
	uint8_t zero[56];
	struct slot slot[CP_SLOTS];
};

struct header {
	struct identity identity;
	uint8_t zero0[1024 - sizeof(struct identity)];
	struct control control;
	uint8_t zero1[CP_PAGE - 1024 - sizeof(struct control)];
};

struct producer_line {
	uint64_t tail, dropped, drops, journal, flags, asked, word;
	uint8_t zero[72];
};

struct consumer_line {
	uint64_t head, drops, journal, asked;
	uint8_t zero[96];
};

struct first_last {
	uint64_t zero0, count;
	struct cp_record first, last[2];
	uint64_t poison;
	uint8_t zero1[56];
};

struct cells {
	uint64_t counter;
	uint8_t zero0[56];
	struct first_last first_last;
	uint64_t counter_alone;
	uint8_t zero1[56];
};

struct journal_entry {
	uint64_t word, kind, a, b, from, counter, dropped, skipped;
};

struct drop_range {
	uint64_t at, before, first, last;
};

struct shard_page {
	struct producer_line producer;
	struct consumer_line consumer;
	struct cells cells;
	struct journal_entry journal[CP_JOURNAL];
	struct drop_range drops[CP_DROPS];
	uint8_t zero[512];
};

#define AT(type, field, offset) \
	_Static_assert(offsetof(struct type, field) == (offset), #type "." #field)
#define SIZE(type, bytes) _Static_assert(sizeof(struct type) == (bytes), #type)

_Static_assert(sizeof(void *) == 8, "rings may exceed 4 GiB, and words are read whole");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "all machines that this was written for");
SIZE(cp_record, 16);
SIZE(identity, 256);
AT(identity, version, 8);
AT(identity, shards, 12);
AT(identity, records, 16);
AT(identity, file_bytes, 24);
AT(identity, incarnation, 32);
AT(identity, boot, 48);
AT(identity, opened_counter, 64);
AT(identity, opened_utc_lo_ns, 72);
AT(identity, opened_utc_hi_ns, 80);
AT(identity, pid, 88);
AT(identity, node_number, 92);
AT(identity, many_writers, 96);
AT(identity, policy, 97);
AT(identity, stamp, 98);
AT(identity, name_bytes, 99);
AT(identity, links, 100);
AT(identity, name, 104);
AT(identity, pid_namespace, 232);
AT(identity, checksum, 248);
SIZE(slot, 32);
SIZE(control, 320);
AT(control, slot, 64);
SIZE(header, CP_PAGE);
AT(header, control, 1024);
SIZE(producer_line, 128);
AT(producer_line, dropped, 8);
AT(producer_line, drops, 16);
AT(producer_line, journal, 24);
AT(producer_line, flags, 32);
AT(producer_line, asked, 40);
AT(producer_line, word, 48);
_Static_assert(CP_TAIL * 8 + 48 == offsetof(struct producer_line, tail), "CP_TAIL");
SIZE(consumer_line, 128);
AT(consumer_line, drops, 8);
AT(consumer_line, journal, 16);
AT(consumer_line, asked, 24);
SIZE(first_last, 128);
AT(first_last, count, 8);
AT(first_last, first, 16);
AT(first_last, last, 32);
AT(first_last, poison, 64);
SIZE(cells, 256);
AT(cells, first_last, 64);
AT(cells, counter_alone, 192);
SIZE(journal_entry, 64);
AT(journal_entry, kind, 8);
AT(journal_entry, a, 16);
AT(journal_entry, b, 24);
AT(journal_entry, from, 32);
AT(journal_entry, counter, 40);
AT(journal_entry, dropped, 48);
AT(journal_entry, skipped, 56);
SIZE(drop_range, 32);
AT(drop_range, before, 8);
AT(drop_range, first, 16);
AT(drop_range, last, 24);
SIZE(shard_page, CP_PAGE);
AT(shard_page, consumer, 128);
AT(shard_page, cells, 256);
AT(shard_page, journal, 512);
AT(shard_page, drops, 1536);

#undef AT
#undef SIZE

#endif
