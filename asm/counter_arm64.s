#include "textflag.h"

// The CPU may read CNTVCT_EL0 early or late, as it may any other register. ISB first waits until
// all earlier instructions are done. The Go assembler requires an operand for ISB. The only valid
// operand is 15, the full system.

// func Counter() uint64
TEXT ·Counter(SB), NOSPLIT, $0-8
	ISB  $15
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func CounterUnordered() uint64
TEXT ·CounterUnordered(SB), NOSPLIT, $0-8
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func EdgeOpen() uint64
TEXT ·EdgeOpen(SB), NOSPLIT, $0-8
	ISB  $15
	MRS  CNTVCT_EL0, R0
	ISB  $15
	MOVD R0, ret+0(FP)
	RET

// func EdgeClose() uint64
//
// DSB waits until earlier stores are visible to all cores.
TEXT ·EdgeClose(SB), NOSPLIT, $0-8
	DSB  $15
	ISB  $15
	MRS  CNTVCT_EL0, R0
	MOVD R0, ret+0(FP)
	RET

// func LoopCounter(n uint64) uint64
TEXT ·LoopCounter(SB), NOSPLIT, $0-16
	MOVD n+0(FP), R1
	MOVD $0, R0
	CBZ  R1, done

loop:
	ISB  $15
	MRS  CNTVCT_EL0, R0
	SUBS $1, R1
	BNE  loop

done:
	MOVD R0, ret+8(FP)
	RET

// func LoopCounterUnordered(n uint64) uint64
TEXT ·LoopCounterUnordered(SB), NOSPLIT, $0-16
	MOVD n+0(FP), R1
	MOVD $0, R0
	CBZ  R1, done

loop:
	MRS  CNTVCT_EL0, R0
	SUBS $1, R1
	BNE  loop

done:
	MOVD R0, ret+8(FP)
	RET

// func counterFrequency() uint64
TEXT ·counterFrequency(SB), NOSPLIT, $0-8
	MRS  CNTFRQ_EL0, R0
	MOVD R0, ret+0(FP)
	RET
