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
)

//go:embed strict.txt
var strictTable string

// strictCalls are the system calls allowed by "syscalls": "strict".
var strictCalls = parseCalls(strictTable)

func parseCalls(table string) (names []string) {
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "#") {
			names = append(names, strings.Fields(line)...)
		}
	}
	return names
}

// netCalls are additionally allowed in strict jobs with a network.
var netCalls = []string{"socket", "connect", "bind", "listen", "accept", "accept4"}

// Program returns the default profile of programs. Each program gets it from its guest, compiled
// once, because leaving it to runc costs an eighth of a container. The guest itself has no filter.
//
// It is the engine's profile without two ways to affect the program's parent: process 1 of its box,
// or the interpreter that it was forked from. The parent has the same user, so the kernel would
// allow a program to create a sibling (CLONE_PARENT) or to set another process's limits (prlimit).
// The parent's priority and processors are safe, because they require capabilities.
func Program() *specs.LinuxSeccomp {
	p := engineSeccomp()
	for i := range p.Syscalls {
		s := &p.Syscalls[i]
		if slices.Equal(s.Names, []string{"clone"}) && len(s.Args) == 1 {
			s.Args[0].Value |= unix.CLONE_PARENT // must be 0, like the flags for namespaces
		}
		s.Names = slices.DeleteFunc(slices.Clone(s.Names), func(name string) bool { return name == "prlimit64" })
	}
	for _, a := range []specs.LinuxSeccompArg{
		{Index: 0, Value: 1<<32 - 1, ValueTwo: 0, Op: specs.OpMaskedEqual}, // itself
		{Index: 2, Value: 0, Op: specs.OpEqualTo},                          // reads only
	} {
		p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: []string{"prlimit64"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{a}})
	}
	return withoutNewest(p)
}

// Machine returns the profile of a machine, whose root has these capabilities: the engine's, for
// process 1 and all programs.
func Machine(caps []string) *specs.LinuxSeccomp { return withoutNewest(engineSeccomp(caps...)) }

// withoutNewest has the calls in newest return ENOSYS.
func withoutNewest(p *specs.LinuxSeccomp) *specs.LinuxSeccomp {
	missing := uint(unix.ENOSYS)
	p.Syscalls = append(p.Syscalls, specs.LinuxSyscall{Names: newest, Action: specs.ActErrno, ErrnoRet: &missing})
	return p
}

// restriction is how a program's filter is tighter than the default one.
type restriction struct {
	strict  bool // an allow-list
	network bool // with sockets on it
	alone   bool // no process besides the program itself, even after execve
}

// restrictionOf returns the restriction in p.
func restrictionOf(p *policy.Policy) restriction {
	r := restriction{strict: p.Syscalls == "strict", alone: !p.Subprocesses}
	r.network = r.strict && p.Network.Mode != policy.NetworkNone
	return r
}

// Filters compiles and caches the filters of restricted programs.
type Filters struct {
	mu   sync.Mutex
	kept map[restriction][]byte
}

// Of returns the filter for p, or usual if p has no restriction.
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
	filter, err := Compile(r.profile())
	if err != nil {
		return nil, fmt.Errorf("policy.syscalls: %w", err)
	}
	if f.kept == nil {
		f.kept = map[restriction][]byte{}
	}
	f.kept[r] = filter
	return filter, nil
}

// profile returns the default profile with restriction r.
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

// forbids reports whether r forbids the call completely.
func (r restriction) forbids(name string) bool {
	switch {
	case name == "clone3": // has its own result, ENOSYS
		return false
	case r.alone && slices.Contains([]string{"fork", "vfork", "clone"}, name):
		return true
	}
	return r.strict && !slices.Contains(strictCalls, name) && !(r.network && slices.Contains(netCalls, name))
}

// threadsOnly allows clone for threads without new namespaces.
func threadsOnly() specs.LinuxSyscall {
	return specs.LinuxSyscall{Names: []string{"clone"}, Action: specs.ActAllow, Args: []specs.LinuxSeccompArg{
		{Index: 0, Value: unix.CLONE_THREAD, ValueTwo: unix.CLONE_THREAD, Op: specs.OpMaskedEqual},
		{Index: 0, Value: namespaceFlags | unix.CLONE_PARENT, ValueTwo: 0, Op: specs.OpMaskedEqual},
	}}
}
