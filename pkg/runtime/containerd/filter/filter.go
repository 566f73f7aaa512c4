package filter

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/seccomp"
)

//go:embed strict.txt
var strictTable string

// strictCalls are the system calls that "syscalls": "strict" leaves.
var strictCalls = parseCalls(strictTable)

func parseCalls(table string) (names []string) {
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.Fields(line)...)
		}
	}
	return names
}

// netCalls are those that strict leaves a job with a way out besides.
var netCalls = []string{"socket", "connect", "bind", "listen", "accept", "accept4"}

// Program is the profile of every program that asks for no other. Each gets
// it from its guest, compiled once: to leave it to runc costs an eighth of a
// container. The guest itself does without.
//
// It is the engine's, less what would make a program's failure one of what started
// it. That has the program's user (process 1 of its box, the interpreter that it
// was forked from), and the kernel asks for no more of who makes himself a sibling
// of his own (CLONE_PARENT), or sets limits of another process (prlimit). Its
// priority and its processors are safe: for those the kernel looks at capabilities.
func Program() *specs.LinuxSeccomp {
	p := engineSeccomp()
	for i := range p.Syscalls {
		s := &p.Syscalls[i]
		if slices.Equal(s.Names, []string{"clone"}) && len(s.Args) == 1 {
			s.Args[0].Value |= unix.CLONE_PARENT // which must be 0, with the flags for namespaces
		}
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return name == "prlimit64" })
	}
	for _, a := range []specs.LinuxSeccompArg{
		{Index: 0, Value: 1<<32 - 1, ValueTwo: 0, Op: specs.OpMaskedEqual}, // itself
		{Index: 2, Value: 0, Op: specs.OpEqualTo},                          // it only asks
	} {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: []string{"prlimit64"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{a}})
	}
	missing := uint(unix.ENOSYS)
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: newest, Action: specs.ActErrno, ErrnoRet: &missing})
	return p
}

// restriction says how a program's filter is tighter than the default one.
type restriction struct {
	strict  bool // an allow-list
	network bool // that has sockets on it
	alone   bool // no process besides the program itself, whatever that becomes
}

// restrictionOf returns what p asks for.
func restrictionOf(p *policy.Policy) restriction {
	r := restriction{strict: p.Syscalls == "strict", alone: !p.Subprocesses}
	r.network = r.strict && p.Network.Mode != policy.NetworkNone
	return r
}

// Filters compiles and keeps the filters of restricted programs.
type Filters struct {
	mu   sync.Mutex
	kept map[restriction][]byte
}

// Of returns the filter for p, which is usual where p asks for nothing special.
func (f *Filters) Of(p *policy.Policy, usual []byte) ([]byte, error) {
	r := restrictionOf(p)
	if r == (restriction{}) {
		return usual, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if filter, ok := f.kept[r]; ok {
		return filter, nil
	}
	filter, err := seccomp.Compile(r.profile())
	if err != nil {
		return nil, fmt.Errorf("policy.syscalls: %w", err)
	}
	if f.kept == nil {
		f.kept = map[restriction][]byte{}
	}
	f.kept[r] = filter
	return filter, nil
}

// profile is that of any program, less what r takes away.
func (r restriction) profile() *specs.LinuxSeccomp {
	profile := Program()
	for i := range profile.Syscalls {
		s := &profile.Syscalls[i]
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), r.forbids)
	}
	profile.Syscalls = slices.DeleteFunc(profile.Syscalls, func(s specs.LinuxSyscall) bool { return len(s.Names) == 0 })
	if r.alone {
		profile.Syscalls = append(profile.Syscalls, threadsOnly())
	}
	return profile
}

// forbids reports whether r takes the call away altogether.
func (r restriction) forbids(name string) bool {
	switch {
	case name == "clone3": // has an answer of its own: there is none such
		return false
	case r.alone && slices.Contains([]string{"fork", "vfork", "clone"}, name):
		return true
	}
	return r.strict && !slices.Contains(strictCalls, name) && !(r.network && slices.Contains(netCalls, name))
}

// threadsOnly allows clone for threads, in no namespaces of their own.
func threadsOnly() specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
		{Index: 0, Value: unix.CLONE_THREAD, ValueTwo: unix.CLONE_THREAD, Op: specs.OpMaskedEqual},
		{Index: 0, Value: namespaceFlags | unix.CLONE_PARENT, ValueTwo: 0, Op: specs.OpMaskedEqual},
	}}
}
