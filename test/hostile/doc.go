// Package hostile is a corpus of programs that attack the walls around them.
//
// Each file of programs/<subject>/ is one attack: python, C or shell. Its first
// comment says what it tries and what must come of it:
//
//	tries     what the program does, in a few words
//	outcome   the outcome it must get; several, split by |, where the kernel may choose
//	gvisor    outcomes that will do at that isolation, and why (optional): its kernel
//	          permits more, to nobody's harm but its own
//	at gvisor what the attack means there, for people (optional)
//	policy    fields of the policy, over those of the corpus (optional)
//	says      what the output must contain (optional)
//	kept      the artifacts that are kept, split by spaces (optional)
//	victim    yes, an innocent job of the same tenant runs beside it; or other, of
//	          another tenant (optional)
//	alone     yes: nothing else runs beside it (optional)
//
// Beside all of subject exhaustion run two jobs that use what those take, of either
// tenant: see neighbour.py. Who is refused anything there has found a hole.
//
// A program that got through a wall says ESCAPED and fails; one that tried
// everything and got nowhere says contained. The test does not take its word:
// bait on the host (a listener, a socket, a file) must stay untouched, no
// process of the attack may live on, a canary job right after it must find
// everything as it should be, and after each subject the host must be clean.
//
// What other tests need for attacks of their own is exported; it runs nothing.
package hostile
