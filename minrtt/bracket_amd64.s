#include "textflag.h"

// func bracketVDSO(function uintptr, b *vdsoBracket)
//
// The kernel's function runs in this frame, so the code moves the stack pointer to the frame's
// upper end. The frame is larger than a page, because a kernel may be built to probe its stack.
// ADJSP tells the runtime's unwinder about the move. Signals are handled on another stack. The
// runtime does not preempt a goroutine while the program counter is outside all functions of Go.
TEXT ·bracketVDSO(SB), 0, $8208-16
	MOVQ  function+0(FP), R12 // C functions preserve R12 and R13
	MOVQ  b+8(FP), R13
	XORL  DI, DI              // CLOCK_REALTIME
	LEAQ  8(R13), SI
	ADJSP $-8192
	RDTSCP
	SHLQ  $32, DX
	ORQ   DX, AX
	MOVQ  AX, 0(R13)
	CALL  R12
	MOVQ  AX, 32(R13)
	RDTSCP
	ADJSP $8192
	SHLQ  $32, DX
	ORQ   DX, AX
	MOVQ  AX, 24(R13)
	RET
