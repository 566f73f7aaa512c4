package processes

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/frame"
)

var errWindow = fmt.Errorf("%w: more input than its window", frame.ErrProtocol)

// begin starts a program.
func (s *Server) begin(id uint32, c *Command) (*program, *Refusal) {
	who, refusal := lookUser(c.User)
	if refusal != nil {
		return nil, refusal
	}
	p := &program{server: s, id: id, mark: strconv.FormatUint(uint64(id), 10), end: make(chan Status, 1), room: newRoom(Window)}
	dir, exists := who.dir(c.Dir)
	if !exists {
		return nil, &Refusal{NoDirectory, fmt.Sprintf("the working directory %q does not exist", dir)}
	}
	env := who.environ(append(c.Env[:len(c.Env):len(c.Env)], markName+"="+p.mark))
	path, refusal := lookPath(c.Argv[0], dir, env)
	if refusal != nil {
		return nil, refusal
	}
	theirs, err := p.open(c)
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	if err != nil {
		p.discard()
		return nil, refuse(err, c.Argv[0], dir, c.User)
	}
	attr := &syscall.ProcAttr{Dir: dir, Env: env, Sys: &syscall.SysProcAttr{Setsid: true, Credential: who.credential}}
	for _, f := range theirs {
		attr.Files = append(attr.Files, f.Fd())
	}
	if c.Terminal != nil {
		attr.Sys.Setctty, attr.Sys.Ctty = true, 0
	}
	s.mu.Lock()
	if s.programs[id] != nil {
		s.mu.Unlock()
		p.discard()
		return nil, &Refusal{Unusable, fmt.Sprintf("program %d runs already", id)}
	}
	s.programs[id] = p // before its first output
	s.mu.Unlock()
	p.pid, err = s.reaper.start(p.end, func() (int, error) { return syscall.ForkExec(path, c.Argv, attr) })
	if err != nil {
		s.forget(id)
		p.discard()
		return nil, refuse(err, c.Argv[0], dir, c.User)
	}
	return p, nil
}

// open opens the streams of the program. It returns its ends of them, which the caller closes.
func (p *program) open(c *Command) (theirs []*os.File, err error) {
	if c.Terminal != nil {
		return p.openTerminal(*c.Terminal)
	}
	var in *os.File
	if c.Input {
		var r *os.File
		if r, in, err = os.Pipe(); err != nil {
			return nil, err
		}
		theirs = append(theirs, r)
	} else {
		null, err := os.Open(os.DevNull)
		if err != nil {
			return nil, err
		}
		theirs = append(theirs, null)
	}
	p.input = newInput(p, in)
	for _, stream := range []int{Stdout, Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, err
		}
		theirs = append(theirs, w)
		p.outputs = append(p.outputs, newOutput(p, stream, r))
	}
	return theirs, nil
}

// openTerminal opens a terminal. The program gets it as all its streams.
func (p *program) openTerminal(s Size) ([]*os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/dev/ptmx", Err: err}
	}
	p.terminal = os.NewFile(uintptr(fd), "/dev/ptmx") // its output closes it
	p.outputs = []*output{newOutput(p, Stdout, p.terminal)}
	p.resize(s)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, os.NewSyscallError("unlock the terminal", err)
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, os.NewSyscallError("number of the terminal", err)
	}
	in, err := dup(p.terminal)
	if err != nil {
		return nil, err
	}
	p.input = newInput(p, in)
	their, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	out, err1 := dup(their)
	errs, err2 := dup(their)
	return []*os.File{their, out, errs}, errors.Join(err1, err2)
}

// discard closes the streams of a program that did not start.
func (p *program) discard() {
	for _, o := range p.outputs {
		_ = o.file.Close()
	}
	if p.input != nil && p.input.file != nil {
		_ = p.input.file.Close()
	}
}

// lookPath returns the path of a program, as the user's directory and environment define it.
func lookPath(name, dir string, env []string) (string, *Refusal) {
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(at) {
			at = filepath.Join(dir, at)
		}
		if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
			return "", &Refusal{NoProgram, fmt.Sprintf("the program %q does not exist", name)}
		}
		return name, nil
	}
	path := variable(env, "PATH")
	denied := ""
	for _, d := range filepath.SplitList(path) {
		at := filepath.Join(dir, d, name)
		if filepath.IsAbs(d) {
			at = filepath.Join(d, name)
		}
		info, err := os.Stat(at)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 != 0:
			return at, nil
		default:
			denied = at
		}
	}
	if denied != "" {
		return "", &Refusal{Denied, fmt.Sprintf("the program %q is not executable", denied)}
	}
	return "", &Refusal{NoProgram, fmt.Sprintf("no directory of PATH (%s) has the program %q", path, name)}
}

// refuse returns the refusal for an error of a start.
func refuse(err error, name, dir, who string) *Refusal {
	if who == "" {
		who = "the default user"
	}
	switch {
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		return &Refusal{Denied, fmt.Sprintf("%s may not execute %q or not enter %q: %v", who, name, dir, err)}
	case errors.Is(err, syscall.ENOENT):
		return &Refusal{NoProgram, fmt.Sprintf("the program %q, or the interpreter that its first line names, does not exist", name)}
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &Refusal{NoRoom, fmt.Sprintf("no room to start %q: %v; see the policy's processes, memory and open_files", name, err)}
	case errors.Is(err, syscall.ENOEXEC):
		return &Refusal{Unusable, fmt.Sprintf("%q is neither a binary for this machine nor a script with #! in its first line", name)}
	case errors.Is(err, syscall.E2BIG):
		return &Refusal{Unusable, fmt.Sprintf("the arguments and environment of %q are too long", name)}
	}
	return &Refusal{Unusable, fmt.Sprintf("start %q: %v", name, err)}
}

// account is a user of the sandbox.
type account struct {
	name, home string
	credential *syscall.Credential // nil: the server's own
}

// lookUser finds a user in the sandbox's own lists, which its programs may have changed.
func lookUser(asked string) (*account, *Refusal) {
	name, group, hasGroup := strings.Cut(asked, ":")
	self := name == "" && !hasGroup
	if name == "" {
		name = strconv.Itoa(os.Geteuid())
	}
	u, err := user.Lookup(name)
	if err != nil {
		u, err = user.LookupId(name)
	}
	if err != nil {
		if _, bad := strconv.ParseUint(name, 10, 31); bad != nil {
			return nil, &Refusal{NoUser, fmt.Sprintf("the user %q does not exist in the sandbox", name)}
		}
		u = &user.User{Uid: name, Gid: "0", Username: name, HomeDir: "/"} // like other runtimes, a number needs no entry
	}
	a := &account{name: u.Username, home: u.HomeDir}
	if self {
		return a, nil
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 31)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 31)
	if err := errors.Join(err1, err2); err != nil {
		return nil, &Refusal{NoUser, fmt.Sprintf("the user %q has no usable number: %v", name, err)}
	}
	a.credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if !hasGroup {
		a.credential.Groups = groups(u)
		return a, nil
	}
	g, err := user.LookupGroup(group)
	if err == nil {
		group = g.Gid
	}
	gid, err = strconv.ParseUint(group, 10, 31)
	if err != nil {
		return nil, &Refusal{NoUser, fmt.Sprintf("the group %q does not exist in the sandbox", group)}
	}
	a.credential.Gid = uint32(gid)
	return a, nil
}

// dir returns the working directory for a command, and whether it exists. The home of a system's user often does not: then
// "/" takes its place, unless the command asks for the home.
func (a *account) dir(asked string) (string, bool) {
	dir := filepath.Join(a.home, asked)
	if filepath.IsAbs(asked) {
		dir = asked
	}
	info, err := os.Stat(dir)
	exists := err == nil && info.IsDir() || err != nil && !errors.Is(err, os.ErrNotExist)
	if !exists && asked == "" {
		return "/", true
	}
	return dir, exists
}

// groups returns the further groups of a user.
func groups(u *user.User) (ids []uint32) {
	names, _ := u.GroupIds()
	for _, n := range names {
		if id, err := strconv.ParseUint(n, 10, 31); err == nil {
			ids = append(ids, uint32(id))
		}
	}
	return ids
}

// environ returns an environment with the user's variables, unless it has them.
func (a *account) environ(env []string) []string {
	for _, v := range [][2]string{{"HOME", a.home}, {"USER", a.name}, {"LOGNAME", a.name}, {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}} {
		if variable(env, v[0]) == "" {
			env = append(env, v[0]+"="+v[1])
		}
	}
	return env
}

// variable returns the value of a variable, or "".
func variable(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if v, ok := strings.CutPrefix(env[i], name+"="); ok {
			return v
		}
	}
	return ""
}
