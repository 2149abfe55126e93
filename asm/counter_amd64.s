#include "textflag.h"

// func Counter() uint64
TEXT ·Counter(SB), NOSPLIT, $0-8
	RDTSCP
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func CounterUnordered() uint64
TEXT ·CounterUnordered(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func EdgeOpen() uint64
//
// LFENCE lets no later instruction start before the counter has been read.
TEXT ·EdgeOpen(SB), NOSPLIT, $0-8
	RDTSCP
	LFENCE
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func EdgeClose() uint64
//
// MFENCE waits until earlier stores are visible to all cores. RDTSCP alone waits only until earlier
// instructions have executed and earlier loads are done.
TEXT ·EdgeClose(SB), NOSPLIT, $0-8
	MFENCE
	RDTSCP
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func LoopCounter(n uint64) uint64
TEXT ·LoopCounter(SB), NOSPLIT, $0-16
	MOVQ  n+0(FP), BX
	XORQ  AX, AX
	TESTQ BX, BX
	JZ    done

loop:
	RDTSCP
	DECQ BX
	JNZ  loop
	SHLQ $32, DX
	ORQ  DX, AX

done:
	MOVQ AX, ret+8(FP)
	RET

// func LoopCounterUnordered(n uint64) uint64
TEXT ·LoopCounterUnordered(SB), NOSPLIT, $0-16
	MOVQ  n+0(FP), BX
	XORQ  AX, AX
	TESTQ BX, BX
	JZ    done

loop:
	RDTSC
	DECQ BX
	JNZ  loop
	SHLQ $32, DX
	ORQ  DX, AX

done:
	MOVQ AX, ret+8(FP)
	RET

// func cpuid(leaf, subleaf uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	MOVL subleaf+4(FP), CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET
