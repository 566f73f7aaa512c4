package filter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// Offsets into the kernel's struct seccomp_data. The high half of an argument is 4 bytes later, on
// our little-endian machines.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// maxProgram is the kernel's limit, in instructions.
const maxProgram = 4096

// Compile returns the program as an array of the kernel's struct sock_filter.
//
// It only allows system calls of this machine's own architecture: a process that makes others (such
// as 32-bit ones) is killed. It ignores unknown names, like a runtime.
func Compile(profile *specs.LinuxSeccomp) ([]byte, error) {
	c := compiler{rules: map[uint32][]rule{}}
	var err error
	if c.fallback, err = action(profile.DefaultAction, profile.DefaultErrnoRet); err != nil {
		return nil, err
	}
	for i := range profile.Syscalls {
		if err := c.add(&profile.Syscalls[i]); err != nil {
			return nil, err
		}
	}
	c.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArch)
	c.jump(unix.BPF_JEQ, nativeArch, 1, 0)
	c.ret(unix.SECCOMP_RET_KILL_PROCESS)
	c.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offNumber)
	c.search(c.spans())
	if c.err == nil && len(c.program) > maxProgram {
		c.err = fmt.Errorf("seccomp: the program has %d instructions, the kernel takes %d", len(c.program), maxProgram)
	}
	return c.bytes(), c.err
}

// rule is an exception from the default for a system call.
type rule struct {
	args   []specs.LinuxSeccompArg // all must match
	action uint32
}

type compiler struct {
	fallback uint32
	rules    map[uint32][]rule // by number
	program  []unix.SockFilter
	err      error
}

func (c *compiler) add(s *specs.LinuxSyscall) error {
	what, err := action(s.Action, s.ErrnoRet)
	if err != nil {
		return err
	}
	for _, a := range s.Args {
		if _, ok := comparisons[a.Op]; !ok || a.Index > 5 {
			return fmt.Errorf("seccomp: cannot compare argument %d by %s", a.Index, a.Op)
		}
	}
	for _, name := range s.Names {
		if n, ok := numbers[name]; ok {
			c.rules[n] = append(c.rules[n], rule{s.Args, what})
		}
	}
	return nil
}

// action returns the kernel's value for an action.
func action(a specs.LinuxSeccompAction, errno *uint) (uint32, error) {
	switch a {
	case specs.ActAllow:
		return unix.SECCOMP_RET_ALLOW, nil
	case specs.ActErrno:
		code := uint(unix.EPERM)
		if errno != nil {
			code = *errno
		}
		return unix.SECCOMP_RET_ERRNO | uint32(code)&unix.SECCOMP_RET_DATA, nil
	case specs.ActKill, specs.ActKillProcess:
		return unix.SECCOMP_RET_KILL_PROCESS, nil
	}
	return 0, fmt.Errorf("seccomp: action %s is not supported", a)
}

// span is a range of system calls, starting at first, with equal treatment.
type span struct {
	first uint32
	rules []rule // the default if none applies
}

// spans covers all numbers, in order.
func (c *compiler) spans() []span {
	out := []span{{first: 0}}
	next := uint32(0)
	for _, n := range slices.Sorted(maps.Keys(c.rules)) {
		if n > next {
			out = append(out, span{first: next})
		}
		out = append(out, span{n, c.rules[n]})
		next = n + 1
	}
	out = append(out, span{first: next})
	// Of spans with the same start only the last is not empty.
	slices.SortStableFunc(out, func(a, b span) int { return cmp.Compare(a.first, b.first) })
	var merged []span
	for _, s := range out {
		switch last := len(merged) - 1; {
		case last >= 0 && merged[last].first == s.first:
			merged[last] = s
		case last >= 0 && c.constant(merged[last]) && c.constant(s) && c.always(merged[last]) == c.always(s):
		default:
			merged = append(merged, s)
		}
	}
	return merged
}

// constant reports whether the result does not depend on arguments in s.
func (c *compiler) constant(s span) bool { return len(s.rules) == 0 || len(s.rules[0].args) == 0 }

// always returns the result in a constant span.
func (c *compiler) always(s span) uint32 {
	if len(s.rules) == 0 {
		return c.fallback
	}
	return s.rules[0].action
}

// search emits a binary search for the number in the accumulator.
func (c *compiler) search(spans []span) {
	if len(spans) == 1 {
		c.decide(spans[0])
		return
	}
	middle := len(spans) / 2
	c.jump(unix.BPF_JGE, spans[middle].first, 0, 1)
	over := c.emit(unix.BPF_JMP|unix.BPF_JA, 0)
	c.search(spans[:middle])
	c.program[over].K = uint32(len(c.program) - over - 1)
	c.search(spans[middle:])
}

// decide emits the rules of one span, each skipped when an argument differs.
func (c *compiler) decide(s span) {
	// A rule without conditions makes the others of its action redundant.
	slices.SortStableFunc(s.rules, func(a, b rule) int { return cmp.Compare(min(len(a.args), 1), min(len(b.args), 1)) })
	for _, r := range s.rules {
		if len(r.args) == 0 {
			c.ret(r.action)
			return
		}
		var misses []int
		for _, a := range r.args {
			misses = append(misses, c.compare(a))
		}
		c.ret(r.action)
		for _, at := range misses {
			c.program[at].K = uint32(len(c.program) - at - 1)
		}
	}
	c.ret(c.fallback)
}

// comparison implements an operator with the kernel's instructions: comparisons of the high half
// and the low half, by one of three jumps.
type comparison struct {
	low     uint16 // the jump for the low halves, when the high ones are equal
	greater bool   // a greater high half suffices
	negated bool   // the operator is the negation
}

var comparisons = map[specs.LinuxSeccompOperator]comparison{
	specs.OpEqualTo:      {low: unix.BPF_JEQ},
	specs.OpMaskedEqual:  {low: unix.BPF_JEQ},
	specs.OpNotEqual:     {low: unix.BPF_JEQ, negated: true},
	specs.OpGreaterEqual: {low: unix.BPF_JGE, greater: true},
	specs.OpLessThan:     {low: unix.BPF_JGE, greater: true, negated: true},
	specs.OpGreaterThan:  {low: unix.BPF_JGT, greater: true},
	specs.OpLessEqual:    {low: unix.BPF_JGT, greater: true, negated: true},
}

// compare emits a check of one argument. It returns the jump that must lead to the code for a
// mismatch.
func (c *compiler) compare(a specs.LinuxSeccompArg) (miss int) {
	how := comparisons[a.Op]
	mask, want := ^uint64(0), a.Value
	if a.Op == specs.OpMaskedEqual {
		mask, want = a.Value, a.ValueTwo
	}
	// Jump targets, counted from the first instruction: 7 is the mismatch.
	yes, no := uint8(8), uint8(7)
	if how.negated {
		yes, no = no, yes
	}
	above := no
	if how.greater {
		above = yes
	}
	load := func(half uint32) {
		c.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, offArgs+8*uint32(a.Index)+half)
		c.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, uint32(mask>>(8*half)))
	}
	load(4)                                            // 0, 1
	c.jump(unix.BPF_JGT, uint32(want>>32), above-3, 0) // 2
	c.jump(unix.BPF_JEQ, uint32(want>>32), 0, no-4)    // 3
	load(0)                                            // 4, 5
	c.jump(how.low, uint32(want), yes-7, no-7)         // 6
	return c.emit(unix.BPF_JMP|unix.BPF_JA, 0)         // 7
}

func (c *compiler) emit(code uint16, k uint32) (at int) {
	c.program = append(c.program, unix.SockFilter{Code: code, K: k})
	return len(c.program) - 1
}

func (c *compiler) jump(op uint16, k uint32, yes, no uint8) {
	c.program = append(c.program, unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k})
}

func (c *compiler) ret(k uint32) { c.emit(unix.BPF_RET|unix.BPF_K, k) }

func (c *compiler) bytes() []byte {
	var out []byte
	for _, f := range c.program {
		out = binary.NativeEndian.AppendUint16(out, f.Code)
		out = append(out, f.Jt, f.Jf)
		out = binary.NativeEndian.AppendUint32(out, f.K)
	}
	return out
}

// numbers maps this architecture's system calls by name.
var numbers = parseNumbers(table)

func parseNumbers(table string) map[string]uint32 {
	out := map[string]uint32{}
	for line := range strings.Lines(table) {
		name, number, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseUint(number, 10, 32)
		if err != nil {
			panic(errors.Join(fmt.Errorf("seccomp: the table of system calls is broken at %q", line), err))
		}
		out[name] = uint32(n)
	}
	return out
}
