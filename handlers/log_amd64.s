//go:build !race

#include "go_asm.h"
#include "textflag.h"

// REDUCE leaves v mod the sieve's modulus in v, as sieve.keeps does. SI points to the settings. AX,
// DX and R9 are overwritten.
#define REDUCE(v) \
	MOVQ  (adoptedSettings_sieve+sieve_reciprocal)(SI), AX; \
	MULQ  v;                                        \
	MOVQ  (adoptedSettings_sieve+sieve_modulus)(SI), R9;    \
	IMULQ R9, DX;                                   \
	SUBQ  DX, v;                                    \
	MOVQ  v, AX;                                    \
	SUBQ  R9, AX;                                   \
	CMOVQCC AX, v

// PUT stores the record (DX:AX, id) at R10, the next place of the field otherWindow, and publishes
// it. R8 points to the switching word.
#define PUT \
	MOVL AX, 0(R10);                                         \
	MOVL DX, 4(R10);                                         \
	MOVQ id+8(FP), BX;                                       \
	MOVQ BX, 8(R10);                                         \
	ADDQ $const_recordBytes, (Channel_otherWindow+window_next)(DI); \
	INCQ const_tailFromWord(R8)

// func log(c *Channel, id uint64)
//
// This is the whole log call for common cases. Rare cases jump to logGo with unchanged arguments,
// before log has published anything: new settings, a full ring, the end of the ring's memory, the
// first event, a poison event, and some handlers with many writers.
//
// On amd64 stores become visible in program order. log stores a record before the tail or the count
// that publishes the record. So a program that dies after any instruction leaves no torn record.
//
// RDTSCP waits for the instructions before it, and those after it wait for RDTSCP. So the cost of a
// call includes the longest chain of instructions on each side. All addresses are in the channel's
// first cache line. So only one load waits for another one: the load of the switching word. The
// counter is stored before the switching word is compared: nobody sees a record above the tail, so
// a rare case may leave half a record there. Two stores of half a counter take one instruction less
// than joining the halves.
//
// A program works between two calls, and then its caches contain other data. A call touches three
// lines: the channel's, that of the word and the tail, and the record's. Below, the line with BYTE
// is PREFETCHW 64(R10). It fetches the line after the record's, for the next calls.
//
//	DI channel   SI settings   BX id   DX:AX counter
//	R8 address of the switching word or of a first-last cell   R10 address of the record
TEXT ·log(SB), NOSPLIT, $0-16
	MOVQ c+0(FP), DI
	MOVQ (Channel_plainWindow+window_next)(DI), R10
	CMPQ R10, (Channel_plainWindow+window_end)(DI)
	JEQ  other
	BYTE $0x41; BYTE $0x0F; BYTE $0x0D; BYTE $0x4A; BYTE $0x40
	RDTSCP
	MOVL AX, 0(R10)
	MOVL DX, 4(R10)
	MOVQ Channel_word(DI), R8
	MOVQ Channel_plain(DI), R9
	CMPQ R9, (R8)
	JNE  rare
	MOVQ id+8(FP), BX
	MOVQ BX, 8(R10)
	ADDQ $const_recordBytes, (Channel_plainWindow+window_next)(DI)
	INCQ const_tailFromWord(R8)
	RET

other:
	MOVQ  Channel_place(DI), R10
	TESTQ R10, R10
	JNE   firstLast
	MOVQ  Channel_word(DI), R8
	MOVQ (R8), R9
	CMPQ R9, Channel_plain(DI)
	JEQ  record
	MOVQ Channel_set(DI), SI
	CMPQ R9, adoptedSettings_word(SI)
	JNE  rare
	MOVQ adoptedSettings_mode(SI), R9
	CMPQ R9, $const_modeCounter
	JEQ  counter
	CMPQ R9, $const_modeXoY
	JEQ  xoy
	CMPQ R9, $const_modeDownsample
	JEQ  downsample
	CMPQ R9, $const_modeCounterMany
	JEQ  counterMany
	CMPQ R9, $const_modeRecord
	JNE  rare

record:
	MOVL Channel_writer(DI), R9
	CMPL R9, $const_writerMany
	JEQ  writeMany
	MOVQ (Channel_otherWindow+window_next)(DI), R10
	CMPQ R10, (Channel_otherWindow+window_end)(DI)
	JEQ  rare
	CMPL R9, $const_writerUnordered
	JEQ  unordered
	RDTSCP
	PUT
	RET

unordered:
	RDTSC
	PUT
	RET

writeMany:
	JMP ·logMany(SB)

xoy:
	MOVQ id+8(FP), BX
	REDUCE(BX)
	CMPQ BX, (adoptedSettings_sieve+sieve_below)(SI)
	JCS  record
	RET

downsample:
	MOVQ Channel_calls(DI), BX
	LEAQ 1(BX), R10
	REDUCE(BX)
	CMPQ BX, (adoptedSettings_sieve+sieve_below)(SI)
	JCS  rare         // the event becomes a record: logGo counts the call and writes it
	MOVQ R10, Channel_calls(DI)
	RET

counter:
	MOVQ Channel_counter(DI), R9
	INCQ (R9)
	RET

	// The goroutine's place in the table depends on the goroutine's address. If the place is that
	// of another goroutine, the caller's goroutine counts with a locked operation.
counterMany:
	MOVQ TLS, CX
	MOVQ   0(CX)(TLS*1), AX
	IMUL3L $const_countHash, AX, BX
	SHRL   $(32-const_countBits), BX
	SHLQ   $5, BX
	ADDQ   Channel_counts(DI), BX
	MOVQ   countPlace_goroutine(BX), R9
	CMPQ   R9, AX
	JNE    counterShared
	MOVQ   countPlace_ownCell(BX), R9
	INCQ   (R9)
	RET

counterShared:
	TESTQ R9, R9
	JEQ   rare
	MOVQ  countPlace_sharedCell(BX), R9
	LOCK
	INCQ  (R9)
	RET

	// Once the channel has adopted first-last and logged its first event, Channel.place is set.
	// Of the two places for the last record, the next record takes the one to which the count does
	// not point. The addresses of the two differ in bit 4.
firstLast:
	CMPL  Channel_writer(DI), $const_writerOrdered
	JNE   unorderedLast
	RDTSCP

putLast:
	MOVL AX, 0(R10)
	MOVL DX, 4(R10)
	MOVQ Channel_word(DI), R8
	MOVQ Channel_last(DI), R9
	CMPQ R9, (R8)
	JNE  rare
	MOVQ id+8(FP), BX
	CMPQ BX, $-1 // a poison event
	JEQ  rare
	MOVQ BX, 8(R10)
	MOVQ Channel_cell(DI), R8
	XORQ $const_recordBytes, Channel_place(DI)
	INCQ const_firstLastCount(R8)
	RET

unorderedLast:
	RDTSC
	JMP putLast

rare:
	JMP ·logGo(SB)

// func putPinned(c *Channel, id, processor uint64) bool
//
// putPinned is the log call of one of many writers, which is pinned to its processor. If the
// processor has a shard to itself and there is room, putPinned writes the record and returns true.
//
//	DI channel   SI shard   BX id   DX:AX counter   R8 address of the tail   R10 tail   R11 record
TEXT ·putPinned(SB), NOSPLIT, $0-25
	MOVQ  c+0(FP), DI
	MOVQ  processor+16(FP), SI
	MOVL  Channel_processors(DI), R9
	CMPQ  SI, R9
	JCC   no
	IMULQ $const_shardBytes, SI
	ADDQ  Channel_shard(DI), SI
	RDTSCP
	MOVQ  const_shardTail(SI), R8
	MOVQ  (R8), R10
	CMPQ  R10, const_shardLimit(SI)
	JCC   no
	MOVQ  const_shardMask(SI), R9
	MOVQ  R10, R11
	ANDQ  R9, R11
	SHLQ  $4, R11
	ADDQ  const_shardRecords(SI), R11
	SHLQ  $32, DX
	ORQ   AX, DX
	BTRQ  $63, DX
	INCQ  R9   // the number of records: this bit of the tail decides on the lap mark
	TESTQ R9, R10
	JNE   unmarked
	BTSQ  $63, DX

unmarked:
	MOVQ id+8(FP), BX
	MOVQ BX, 8(R11)
	MOVQ DX, 0(R11)
	INCQ R10
	MOVQ R10, (R8)
	MOVB $1, ret+24(FP)
	RET

no:
	MOVB $0, ret+24(FP)
	RET

// func goroutineAddress() uintptr
TEXT ·goroutineAddress(SB), NOSPLIT, $0-8
	MOVQ TLS, CX
	MOVQ 0(CX)(TLS*1), AX
	MOVQ AX, ret+0(FP)
	RET
