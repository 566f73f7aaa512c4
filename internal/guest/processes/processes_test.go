package processes

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/frame"
)

// asServer makes this test binary the server of a sandbox.
const asServer = "PROCESSES_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(asServer) == "" {
		os.Exit(m.Run())
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil { // like process 1 of a sandbox
		panic(err)
	}
	inherited := os.NewFile(3, "conn")
	conn, err := net.FileConn(inherited)
	if err = errors.Join(err, inherited.Close()); err == nil { // otherwise programs would keep it
		err = Serve(conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

// serve starts a server in a process of its own.
func serve(t *testing.T) (*Client, *exec.Cmd) {
	t.Helper()
	ours, theirs := pair(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.Stderr, cmd.ExtraFiles = os.Stderr, []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	c, over := NewClient(ours), make(chan error, 1)
	go func() { over <- c.Run(ours) }()
	t.Cleanup(func() {
		killAll(t, cmd.Process.Pid)
		_ = ours.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		<-over
	})
	return c, cmd
}

// killAll kills what the server has started.
func killAll(t *testing.T, server int) {
	t.Helper()
	for range 100 {
		found := false
		for _, q := range processes() {
			if q.parent == server && !q.zombie {
				_ = syscall.Kill(q.pid, syscall.SIGKILL)
				found = true
			}
		}
		if !found {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Error("processes of the server live on")
}

func pair(t testing.TB) (net.Conn, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours := os.NewFile(uintptr(fds[0]), "ours")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	return conn, os.NewFile(uintptr(fds[1]), "theirs")
}

// kept keeps a program's output.
type kept struct {
	mu   sync.Mutex
	text [3]bytes.Buffer
}

func (k *kept) sink(p *Process, stream int, data []byte) {
	k.mu.Lock()
	k.text[stream].Write(data)
	k.mu.Unlock()
	_ = p.Taken(len(data))
}

func (k *kept) get(stream int) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.text[stream].String()
}

// start starts a program that must start.
func start(t *testing.T, c *Client, command Command) (*Process, *kept) {
	t.Helper()
	k := new(kept)
	p, err := c.Start(t.Context(), command, k.sink)
	if err != nil {
		t.Fatal(err)
	}
	return p, k
}

// shell is a command that runs a script.
func shell(script string) Command {
	return Command{Argv: []string{"/bin/sh", "-c", script}, Dir: "/tmp", Env: []string{"PATH=" + os.Getenv("PATH")}}
}

// end waits for a program's end.
func end(t *testing.T, p *Process) Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	s, err := p.Wait(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for a condition.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for began := time.Now(); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("never: %s", what)
		}
	}
}

func closes(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(20 * time.Second):
		t.Fatalf("never: %s", what)
	}
}

func TestOutputAndEnd(t *testing.T) {
	c, _ := serve(t)
	for _, x := range []struct {
		script   string
		out, err string
		want     Status
	}{
		{"echo hello; echo oops >&2; exit 7", "hello\n", "oops\n", Status{Code: 7}},
		{"true", "", "", Status{}},
		{"printf 'a\\000\\377b'", "a\x00\xffb", "", Status{}},
		{"kill -SEGV $$", "", "", Status{Code: -1, Signal: int(syscall.SIGSEGV)}},
		{"cat; echo $?", "0\n", "", Status{}}, // no input
		{"pwd", "/tmp\n", "", Status{}},
	} {
		p, k := start(t, c, shell(x.script))
		s := end(t, p)
		s.CPUMS = 0
		if s != x.want || k.get(Stdout) != x.out || k.get(Stderr) != x.err {
			t.Errorf("%s: %+v, %q, %q; want %+v, %q, %q", x.script, s, k.get(Stdout), k.get(Stderr), x.want, x.out, x.err)
		}
		closes(t, "the output is closed", p.Closed())
	}
}

func TestManyPrograms(t *testing.T) {
	c, cmd := serve(t)
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			for j := range 5 {
				p, k := start(t, c, shell(fmt.Sprintf("echo %d; (echo orphan >/dev/null &); exit %d", i, j)))
				if s := end(t, p); s.Code != j || k.get(Stdout) != strconv.Itoa(i)+"\n" {
					t.Errorf("program %d.%d: %+v, %q", i, j, s, k.get(Stdout))
				}
			}
		})
	}
	all.Wait()
	until(t, "orphans are reaped", func() bool {
		for _, q := range processes() {
			if q.parent == cmd.Process.Pid {
				return false
			}
		}
		return true
	})
}

// The end of a program comes after all of its output, even if another process still holds the output.
func TestEndAfterOutput(t *testing.T) {
	c, _ := serve(t)
	const size = 1_000_000
	for range 20 {
		p, k := start(t, c, shell(fmt.Sprintf("sleep 300 & head -c %d /dev/zero; echo $!  >&2", size)))
		end(t, p)
		if n := len(k.get(Stdout)); n != size {
			t.Fatalf("%d bytes at the end; want %d", n, size)
		}
		select {
		case <-p.Closed():
			t.Fatal("closed while a process holds the output")
		default:
		}
		if err := p.Signal(int(syscall.SIGKILL), true); err != nil {
			t.Fatal(err)
		}
		closes(t, "the output is closed", p.Closed())
	}
}

func TestOutputAfterTheEnd(t *testing.T) {
	c, _ := serve(t)
	p, k := start(t, c, shell("(while [ ! -e /proc/$$/gone ] && kill -0 $$ 2>/dev/null; do sleep 0.01; done; sleep 0.2; echo late) & echo early"))
	end(t, p)
	if got := k.get(Stdout); got != "early\n" {
		t.Fatalf("at the end: %q", got)
	}
	closes(t, "the output is closed", p.Closed())
	if got := k.get(Stdout); got != "early\nlate\n" {
		t.Errorf("at last: %q", got)
	}
}

func TestInput(t *testing.T) {
	c, _ := serve(t)
	data := bytes.Repeat([]byte("0123456789abcde\n"), 1<<17) // 2 MiB, above the window
	command := shell("cat")
	command.Input = true
	p, k := start(t, c, command)
	if err := p.Write(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if s := end(t, p); s.Code != 0 || k.get(Stdout) != string(data) {
		t.Errorf("%+v, %d bytes; want %d", s, len(k.get(Stdout)), len(data))
	}
}

// A program that does not read, or whose output is not taken, holds up nobody but itself.
func TestSlowSides(t *testing.T) {
	c, _ := serve(t)
	command := shell("sleep 300")
	command.Input = true
	deaf, _ := start(t, c, command)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := deaf.Write(short, make([]byte, 4*Window)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("write to a program that does not read: %v", err)
	}
	var mu sync.Mutex
	held := 0
	loud, err := c.Start(t.Context(), shell("head -c 3000000 /dev/zero"), func(_ *Process, _ int, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		held += len(data)
	})
	if err != nil {
		t.Fatal(err)
	}
	has := func(n int) func() bool { return func() bool { mu.Lock(); defer mu.Unlock(); return held == n } }
	until(t, "the window is full", has(Window))
	p, k := start(t, c, shell("echo other"))
	if end(t, p); k.get(Stdout) != "other\n" {
		t.Errorf("beside them: %q", k.get(Stdout))
	}
	if !has(Window)() {
		t.Error("more output than the window")
	}
	for taken := 0; taken < 3_000_000; { // in steps that the server cannot expect
		mu.Lock()
		n := held - taken
		mu.Unlock()
		if n > 0 {
			n = min(n, 100_001)
			taken += n
			if err := loud.Taken(n); err != nil {
				t.Fatal(err)
			}
		}
	}
	end(t, loud)
	if !has(3_000_000)() {
		t.Error("output is missing")
	}
	// A reader that ends before its input.
	command = shell("exec head -c 1 >/dev/null")
	command.Input = true
	p, _ = start(t, c, command)
	if err := p.Write(t.Context(), make([]byte, 4*Window)); err != nil {
		t.Errorf("write to a program that has ended: %v", err)
	}
	end(t, p)
	closes(t, "the output is closed", p.Closed())
}

// Killing a tree kills daemons too, and no other program.
func TestTree(t *testing.T) {
	c, cmd := serve(t)
	bystander, k := start(t, c, shell("sleep 1; echo survived"))
	victim, _ := start(t, c, shell("setsid sh -c 'sleep 301 & sleep 302 & (setsid sleep 303 &) ; wait' & (setsid setsid sleep 304 &) ; sleep 305"))
	count := func() (n int) {
		for _, q := range processes() {
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", q.pid))
			args := strings.Split(string(line), "\x00")
			if !q.zombie && len(args) > 1 && args[0] == "sleep" && strings.HasPrefix(args[1], "30") && args[1] != "300" && marked(q.pid, []byte(markName+"=2")) && under(q.pid, cmd.Process.Pid) {
				n++
			}
		}
		return n
	}
	until(t, "the victim's processes run", func() bool { return count() == 5 })
	if err := victim.Signal(int(syscall.SIGKILL), true); err != nil {
		t.Fatal(err)
	}
	if s := end(t, victim); s.Signal != int(syscall.SIGKILL) {
		t.Errorf("the victim: %+v", s)
	}
	until(t, "the victim's processes are dead", func() bool { return count() == 0 })
	if s := end(t, bystander); s.Code != 0 || k.get(Stdout) != "survived\n" {
		t.Errorf("the bystander: %+v, %q", s, k.get(Stdout))
	}
}

// under reports whether a process descends from another.
func under(pid, ancestor int) bool {
	for _, q := range processes() {
		if q.pid == pid {
			return q.parent == ancestor || q.parent > 1 && under(q.parent, ancestor)
		}
	}
	return false
}

func TestSignals(t *testing.T) {
	c, _ := serve(t)
	p, k := start(t, c, shell("trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.01; done"))
	until(t, "the trap is set", func() bool { return k.get(Stdout) == "ready\n" })
	if err := p.Signal(int(syscall.SIGINT), false); err != nil {
		t.Fatal(err)
	}
	if s := end(t, p); s.Code != 3 || k.get(Stdout) != "ready\ncaught\n" {
		t.Errorf("%+v, %q", s, k.get(Stdout))
	}
	if err := p.Signal(int(syscall.SIGINT), false); err != nil { // too late
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	c, _ := serve(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := dir + "/" + name
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, x := range map[string]struct {
		command Command
		reason  Reason
		names   string
	}{
		"no such program":   {Command{Argv: []string{"no-such-program"}}, NoProgram, "no-such-program"},
		"no such path":      {Command{Argv: []string{"/no/such/program"}}, NoProgram, "/no/such/program"},
		"no interpreter":    {Command{Argv: []string{write("interpreter", "#!/no/such/thing\n", 0o755)}}, NoProgram, "interpreter"},
		"no directory":      {Command{Argv: []string{"true"}, Dir: "/no/such/dir"}, NoDirectory, "/no/such/dir"},
		"dir is a file":     {Command{Argv: []string{"true"}, Dir: "/etc/passwd"}, NoDirectory, "/etc/passwd"},
		"no user":           {Command{Argv: []string{"true"}, User: "no-such-user"}, NoUser, "no-such-user"},
		"no group":          {Command{Argv: []string{"true"}, User: "0:no-such-group"}, NoUser, "no-such-group"},
		"not executable":    {Command{Argv: []string{write("text", "hello", 0o644)}}, Denied, "text"},
		"not a program":     {Command{Argv: []string{write("words", "hello", 0o755)}}, Unusable, "words"},
		"long arguments":    {Command{Argv: []string{"true", strings.Repeat("x", 1<<20)}}, Unusable, "too long"},
		"arguments too big": {Command{Argv: []string{"true", strings.Repeat("x", 5<<20)}}, Unusable, "too long"},
	} {
		_, err := c.Start(t.Context(), x.command, nil)
		refusal := new(Refusal)
		if !errors.As(err, &refusal) || refusal.Reason != x.reason || !strings.Contains(refusal.Message, x.names) {
			t.Errorf("%s: %v; want %s with %q", name, err, x.reason, x.names)
		}
	}
	p, k := start(t, c, shell("echo works"))
	if end(t, p); k.get(Stdout) != "works\n" {
		t.Errorf("afterwards: %q", k.get(Stdout))
	}
}

func TestTerminal(t *testing.T) {
	c, _ := serve(t)
	command := shell("tty >/dev/null && stty size; echo ready; read line; echo got $line; stty size; trap 'echo interrupted' INT; sh -c 'echo go; exec cat'; echo end")
	command.Terminal = &Size{Rows: 24, Columns: 80}
	p, k := start(t, c, command)
	shows := func(text string) {
		t.Helper()
		until(t, text, func() bool { return strings.Contains(strings.ReplaceAll(k.get(Stdout), "\r\n", "\n"), text) })
	}
	shows("24 80\nready\n")
	if err := p.Resize(Size{Rows: 50, Columns: 132}); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := p.Write(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("hello\n")
	shows("got hello\n")
	shows("50 132\n")
	shows("go\n")
	write("\x03")
	shows("interrupted\n")
	shows("end\n")
	if s := end(t, p); s.Code != 0 {
		t.Errorf("%+v, %q", s, k.get(Stdout))
	}
	closes(t, "the terminal is closed", p.Closed())

	command = shell("cat; echo over")
	command.Terminal = &Size{}
	p, k = start(t, c, command)
	write("text\n")
	if err := p.CloseInput(); err != nil {
		t.Fatal(err)
	}
	if s := end(t, p); s.Code != 0 || !strings.Contains(k.get(Stdout), "over") {
		t.Errorf("%+v, %q", s, k.get(Stdout))
	}
}

// A program runs as its user, with the user's groups, home and names.
func TestUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test needs root, like the server in a sandbox")
	}
	c, _ := serve(t)
	for user, want := range map[string]string{
		"":            "0 0 root root /root\n",
		"nobody":      "65534 65534 nobody nobody /nonexistent\n",
		"65534":       "65534 65534 nobody nobody /nonexistent\n",
		"4242":        "4242 0 4242 4242 /\n",
		"nobody:4243": "65534 4243 nobody nobody /nonexistent\n",
		"root:daemon": "0 1 root root /root\n",
	} {
		command := shell(`echo $(id -u) $(id -g) $USER $LOGNAME $HOME`)
		command.User = user
		p, k := start(t, c, command)
		if end(t, p); k.get(Stdout) != want {
			t.Errorf("user %q: %q, %q; want %q", user, k.get(Stdout), k.get(Stderr), want)
		}
	}
	command := shell("pwd; echo $HOME")
	command.Dir, command.Env = "", append(command.Env, "HOME=/elsewhere")
	p, k := start(t, c, command)
	if end(t, p); k.get(Stdout) != "/root\n/elsewhere\n" {
		t.Errorf("home: %q", k.get(Stdout))
	}
	command.User = "nobody" // whose home does not exist
	p, k = start(t, c, command)
	if end(t, p); k.get(Stdout) != "/\n/elsewhere\n" {
		t.Errorf("no home: %q", k.get(Stdout))
	}
}

func TestServerGone(t *testing.T) {
	c, cmd := serve(t)
	p, _ := start(t, c, shell("sleep 300"))
	defer func() { _ = syscall.Kill(p.PID(), syscall.SIGKILL) }() // in a sandbox the kernel does this
	_ = cmd.Process.Kill()
	closes(t, "the client notices", c.Gone())
	if _, err := p.Wait(t.Context()); !errors.Is(err, ErrGone) {
		t.Errorf("the end of a program: %v", err)
	}
	if _, err := c.Start(t.Context(), shell("true"), nil); !errors.Is(err, ErrGone) {
		t.Errorf("start afterwards: %v", err)
	}
}

// A server cannot make the worker block, grow or believe what cannot be.
func TestHostileServer(t *testing.T) {
	say := func(ms ...message) func(io.Writer) {
		return func(w io.Writer) {
			s := sender{w: w}
			for _, m := range ms {
				_ = s.send(m, make([]byte, m.Load))
			}
		}
	}
	started := message{Op: opStarted, ID: 1, PID: 2}
	flood := []message{started}
	for range Window/MaxLoad + 1 {
		flood = append(flood, message{Op: opOutput, ID: 1, Stream: Stdout, Load: MaxLoad})
	}
	for name, attack := range map[string]func(io.Writer){
		"no frame":            func(w io.Writer) { _, _ = w.Write([]byte("hello, this is no frame")) },
		"an unknown program":  say(message{Op: opEnded, ID: 77}),
		"an unknown op":       say(message{Op: "dance", ID: 1}),
		"two starts":          say(started, started),
		"two ends":            say(started, message{Op: opEnded, ID: 1}, message{Op: opEnded, ID: 1}),
		"an end without":      say(message{Op: opEnded, ID: 1}),
		"closed before ended": say(started, message{Op: opClosed, ID: 1}),
		"beyond the window":   say(flood...),
		"an unknown stream":   say(started, message{Op: opOutput, ID: 1, Stream: 9, Load: 1}),
		"a huge load": func(w io.Writer) {
			_ = frame.Write(w, message{Op: opOutput, ID: 1, Stream: Stdout, Load: 1 << 30})
		},
		"a huge report": say(message{Op: opRefused, ID: 1, Error: strings.Repeat("x", maxReport)}),
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			there, err := net.FileConn(theirs)
			_ = theirs.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			defer there.Close()
			go func() {
				if _, _, err := receive(bufio.NewReader(there), maxMessage, make([]byte, MaxLoad)); err == nil {
					attack(there)
				}
			}()
			c, over := NewClient(ours), make(chan error, 1)
			go func() { over <- c.Run(ours) }()
			_, _ = c.Start(t.Context(), shell("true"), func(*Process, int, []byte) {})
			select {
			case err := <-over:
				if !errors.Is(err, frame.ErrProtocol) {
					t.Errorf("%v; want a breach of the protocol", err)
				}
			case <-time.After(10 * time.Second):
				t.Error("the client accepts it")
			}
		})
	}
}

// BenchmarkTrue measures a program that ends at once.
func BenchmarkTrue(b *testing.B) {
	ours, theirs := pair(b)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asServer+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	c := NewClient(ours)
	go func() { _ = c.Run(ours) }()
	for b.Loop() {
		p, err := c.Start(b.Context(), Command{Argv: []string{"/bin/true"}}, func(*Process, int, []byte) {})
		if err != nil {
			b.Fatal(err)
		}
		<-p.Ended()
	}
	_ = ours.Close()
	_ = cmd.Wait()
}
