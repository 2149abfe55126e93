//go:build !race

#include "go_asm.h"
#include "textflag.h"

// REDUCE leaves v mod the sieve's modulus in v, as sieve.keeps does. SI points to the settings. AX,
// DX and R9 are overwritten.
#define REDUCE(v) \
	MOVQ  (adopted_sieve+sieve_reciprocal)(SI), AX; \
	MULQ  v;                                        \
	MOVQ  (adopted_sieve+sieve_modulus)(SI), R9;    \
	IMULQ R9, DX;                                   \
	SUBQ  DX, v;                                    \
	MOVQ  v, AX;                                    \
	SUBQ  R9, AX;                                   \
	CMOVQCC AX, v

// func log(c *Channel, id uint64)
//
// This is the whole log call for common cases. The others jump to logGo with the arguments as they
// came, before anything has happened: new settings, a full ring, a poison, some handlers of many
// writers.
//
// On amd64 stores become visible in program order. A record is stored before the tail, or the
// count, that publishes it, so that a program which dies after any instruction leaves no torn
// record.
//
// RDTSCP does not overlap with what precedes it, so the cost of a call is the number of its
// instructions. The counter is stored in two halves because that is one instruction less, and cheap
// tests come first.
//
//	DI channel   SI settings   BX id   DX:AX counter
TEXT ·log(SB), NOSPLIT, $0-16
	MOVQ c+0(FP), DI
	MOVQ Channel_word(DI), R9
	MOVQ (R9), R9
	CMPQ R9, Channel_plain(DI)
	JNE  notPlain
	RDTSCP

write:
	MOVQ Channel_shard(DI), R8
	MOVQ id+8(FP), BX
	MOVQ const_shardTail(R8), R9
	MOVQ (R9), R10
	CMPQ R10, const_shardLimit(R8)
	JCC  rare
	ANDQ const_shardMask(R8), R10
	SHLQ $4, R10
	ADDQ const_shardRecords(R8), R10
	MOVL AX, 0(R10)
	MOVL DX, 4(R10)
	MOVQ BX, 8(R10)
	INCQ (R9)
	RET

notPlain:
	MOVQ Channel_set(DI), SI
	CMPQ R9, adopted_word(SI)
	JNE  rare
	MOVQ adopted_mode(SI), R9
	CMPQ R9, $const_modeCounter
	JEQ  counter
	CMPQ R9, $const_modeFirstLast
	JEQ  firstLast
	CMPQ R9, $const_modeXoY
	JEQ  xoy
	CMPQ R9, $const_modeDownsample
	JEQ  downsample
	CMPQ R9, $const_modeCounterMany
	JEQ  counterMany
	CMPQ R9, $const_modeRecord
	JNE  rare

record:
	MOVQ Channel_writer(DI), R9
	CMPQ R9, $const_writerMany
	JEQ  writeMany
	CMPQ R9, $const_writerUnordered
	JEQ  unordered
	RDTSCP
	JMP  write

unordered:
	RDTSC
	JMP write

	// Each core has a shard. Moving the tail reserves a place. The id is stored next, and the
	// counter word last, because the lap's mark in it says that the record is whole.
writeMany:
	RDTSCP
	SHLQ  $32, DX
	ORQ   AX, DX
	ANDQ  Channel_coreMask(DI), CX
	IMULQ $const_shardBytes, CX
	MOVQ  Channel_shard(DI), R8
	ADDQ  CX, R8
	MOVQ  id+8(FP), BX
	MOVQ  const_shardTail(R8), R9
	MOVQ  (R9), AX

reserve:
	CMPQ     AX, const_shardLimit(R8)
	JCC      rare
	LEAQ     1(AX), R10
	LOCK
	CMPXCHGQ R10, (R9)
	JNE      reserve // AX is now the tail that another writer made
	MOVQ     const_shardMask(R8), R10
	MOVQ     AX, R11
	ANDQ     R10, R11
	SHLQ     $4, R11
	ADDQ     const_shardRecords(R8), R11
	INCQ     R10     // the records of the shard: a power of two
	BTRQ     $63, DX
	TESTQ    R10, AX
	JNE      unmarked
	BTSQ     $63, DX

unmarked:
	MOVQ BX, 8(R11)
	MOVQ DX, 0(R11)
	RET

xoy:
	MOVQ id+8(FP), BX
	REDUCE(BX)
	CMPQ BX, (adopted_sieve+sieve_below)(SI)
	JCS  record
	RET

downsample:
	MOVQ Channel_calls(DI), BX
	LEAQ 1(BX), R10
	REDUCE(BX)
	CMPQ BX, (adopted_sieve+sieve_below)(SI)
	JCS  rare         // logGo counts the call that it keeps
	MOVQ R10, Channel_calls(DI)
	RET

counter:
	MOVQ Channel_counter(DI), R9
	INCQ (R9)
	RET

counterMany:
	MOVQ Channel_counter(DI), R9
	LOCK
	INCQ (R9)
	RET

firstLast:
	CMPQ Channel_writer(DI), $const_writerOrdered
	JNE  unorderedLast
	RDTSCP

	// The record goes into that one of the two places to which the count does not point.
putLast:
	MOVQ  id+8(FP), BX
	CMPQ  BX, $-1 // the poison
	JEQ   rare
	MOVQ  Channel_cell(DI), R9
	MOVQ  const_firstLastCount(R9), R10
	TESTQ R10, R10
	JEQ   rare    // the first one
	INCQ  R10
	ANDQ  $1, R10
	SHLQ  $4, R10
	ADDQ  R9, R10
	MOVL  AX, (const_firstLastLast+0)(R10)
	MOVL  DX, (const_firstLastLast+4)(R10)
	MOVQ  BX, (const_firstLastLast+8)(R10)
	INCQ  const_firstLastCount(R9)
	RET

unorderedLast:
	RDTSC
	JMP putLast

rare:
	JMP ·logGo(SB)
