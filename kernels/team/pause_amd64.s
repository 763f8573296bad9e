#include "textflag.h"

// func pause()
TEXT ·pause(SB), NOSPLIT, $0-0
	MOVL $8, AX
again:
	PAUSE
	DECL AX
	JNZ  again
	RET
