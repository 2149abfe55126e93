#include "textflag.h"

// func bracketVDSO(function uintptr, b *vdsoBracket)
//
// The kernel's function runs in this frame: the stack pointer is moved to the frame's upper end.
// The frame has more than a page, because the kernel may have been built to probe its stack. ADJSP
// tells the runtime's unwinder of the move. A signal is handled on another stack, and a goroutine
// is not preempted while the program counter is in no function of Go.
TEXT ·bracketVDSO(SB), 0, $8208-16
	MOVQ  function+0(FP), R12 // the C convention keeps R12 and R13
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
