// Package hostile is a corpus of programs that attack their sandboxes.
//
// Each file of programs/<subject>/ is one attack: Python, C or shell. Its first comment describes
// the attack and its required result:
//
//	tries     the attack, in a few words
//	outcome   the required outcome; several, split by |, if the kernel may choose
//	gvisor    outcomes that are accepted at that isolation, and why (optional): its kernel
//	          permits more, to the harm of the program alone
//	at gvisor the meaning of the attack there, for people (optional)
//	policy    fields of the policy, over the corpus's own (optional)
//	says      text that the output must contain (optional)
//	kept      the artifacts that are kept, split by spaces (optional)
//	victim    yes, an innocent job of the same tenant runs beside it; or other, of
//	          another tenant (optional)
//	alone     yes: no other job runs beside it (optional)
//
// Two jobs run beside all attacks of subject exhaustion, one of each tenant. They use the resources
// that the attacks exhaust: see neighbour.py. If a resource is refused to them, the attack has
// found a hole.
//
// A program that got through a boundary prints ESCAPED and fails. A program that tried everything
// in vain prints contained. The test also checks the bait on the host (a listener, a socket, a
// file), which must stay untouched. No process of the attack may survive, and a canary job right
// after it must find its usual environment. After each subject the host must be clean.
//
// The package exports helpers for attacks in other tests. It runs nothing itself.
package hostile
