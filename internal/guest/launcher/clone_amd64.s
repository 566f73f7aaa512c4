//go:build !cgo

#include "textflag.h"

// func cloneOn(flags, stack, tls uintptr) (n uintptr)
//
// The child has a stack of its own. Its thread-local storage says that there is no goroutine.
TEXT ·cloneOn(SB), NOSPLIT, $0-32
	MOVQ flags+0(FP), DI
	MOVQ stack+8(FP), SI
	XORL DX, DX
	XORL R10, R10
	MOVQ tls+16(FP), R8
	MOVL $56, AX // SYS_clone
	SYSCALL
	TESTQ AX, AX
	JEQ  child
	MOVQ AX, n+24(FP)
	RET
child:
	XORL BP, BP
	CALL ·supervise(SB)
	INT  $3 // supervise does not return
