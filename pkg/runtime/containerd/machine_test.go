package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/guest/processes"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/sandbox"
)

// inside is a machine and the client of its server.
type inside struct {
	runtime.Machine
	client *processes.Client
}

// machinePolicy is the default policy with changes.
func machinePolicy(t *testing.T, r *Runtime, edit func(*policy.Policy)) *policy.Plan {
	t.Helper()
	p := policy.Default()
	p.Isolation, p.Disk, p.Files, p.Processes, p.OpenFiles, p.Subprocesses = policy.Task, 256*job.MiB, 20_000, 100, 1024, true
	if edit != nil {
		edit(&p)
	}
	return &policy.Plan{Policy: p}
}

func newMachine(t *testing.T, r *Runtime, edit func(*policy.Policy)) *inside {
	t.Helper()
	made, err := r.Machine(t.Context(), runtime.MachineSpec{ID: job.NewID(), Image: testenv.Image, Plan: machinePolicy(t, r, edit)})
	if err != nil {
		t.Fatal(err)
	}
	m := &inside{made, processes.NewClient(made.Conn())}
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := m.client.Run(made.Conn()); err != nil {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("the machine's stream: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		made.Close()
		<-over
	})
	return m
}

// does runs a program and returns its end and its output.
func (m *inside) does(t *testing.T, c processes.Command) (processes.Status, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var out bytes.Buffer
	p, err := m.client.Start(ctx, c, func(p *processes.Process, _ int, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		out.Write(data)
		_ = p.Taken(len(data))
	})
	if err != nil {
		t.Fatalf("%q: %v", c.Argv, err)
	}
	s, err := p.Wait(ctx)
	if err != nil {
		t.Fatalf("%q: %v", c.Argv, err)
	}
	mu.Lock()
	defer mu.Unlock()
	return s, out.String()
}

// script is a command of the shell.
func (m *inside) script(user, text string) processes.Command {
	return processes.Command{Argv: []string{"/bin/sh", "-c", text}, User: user, Env: m.ImageConfig().Env}
}

// says runs a script that must succeed, and returns its output.
func (m *inside) says(t *testing.T, user, text string) string {
	t.Helper()
	s, out := m.does(t, m.script(user, text))
	if s.Code != 0 {
		t.Errorf("%s: %+v, %q", text, s, out)
	}
	return strings.TrimSpace(out)
}

// TestMachine checks that a machine is a whole one: any user, a root that is writable everywhere,
// services in the background, and limits that hold for all of it.
func TestMachine(t *testing.T) {
	t.Parallel()
	for _, isolation := range []policy.Isolation{policy.Task, policy.GVisor} {
		t.Run(string(isolation), func(t *testing.T) {
			t.Parallel()
			testMachine(t, isolation)
		})
	}
}

func testMachine(t *testing.T, isolation policy.Isolation) {
	r := newRuntime(t, func(c *Config) {
		if isolation == policy.GVisor {
			c.Runsc = testenv.Runsc(t)
		}
	})
	m := newMachine(t, r, func(p *policy.Policy) { p.Isolation = isolation })

	t.Run("users", func(t *testing.T) {
		for _, x := range []struct{ user, text, want string }{
			{"", "id -u; id -g; echo $HOME $USER; pwd", "0\n0\n/root root\n/root"},
			{"nobody", "id -u; echo $USER", "65534\nnobody"},
			{"1234:4321", "id -u; id -g", "1234\n4321"},
			{"", "echo agent:x:1500:1500::/home/agent:/bin/sh >> /etc/passwd; echo agent:x:1500: >> /etc/group; mkdir /home/agent && chown agent:agent /home/agent", ""},
			{"agent", "id -un; echo hello > ~/file; stat -c %U ~/file; cat ~/file; echo $HOME", "agent\nagent\nhello\n/home/agent"},
			{"", "chown nobody /home/agent/file && stat -c %U /home/agent/file", "nobody"},
			{"", "echo extra:x:1600:agent >> /etc/group", ""},
			{"agent", "id -nG", "agent extra"},
		} {
			if got := m.says(t, x.user, x.text); got != x.want {
				t.Errorf("%s: %s: %q; want %q", x.user, x.text, got, x.want)
			}
		}
		for _, text := range []string{"echo x > /etc/passwd", "cat /etc/shadow", "kill -9 1", "chown nobody /etc"} {
			if s, out := m.does(t, m.script("nobody", text)); s.Code == 0 {
				t.Errorf("nobody may: %s: %q", text, out)
			}
		}
	})
	t.Run("root", func(t *testing.T) {
		m.says(t, "", "mkdir -p /opt/tool/bin /usr/local/lib/new && echo data > /usr/lib/x && mv /usr/lib/x /opt/tool && rm -r /usr/share/doc; ln -s /opt/tool /srv/link; test -e /srv/link/x")
		m.says(t, "", "cp /bin/sh /usr/local/bin/mine && chmod 4755 /usr/local/bin/mine && stat -c %a /usr/local/bin/mine | grep -q 4755")
		m.says(t, "", "cd /tmp && mkfifo p && (echo through > p &) && grep -q through p")
		m.says(t, "", "mkdir -p /srv/jail/bin /srv/jail/lib /srv/jail/lib64 && cp /bin/true /srv/jail/bin && cp -L $(ldd /bin/true | grep -o '/[^ ]*') /srv/jail/lib/ && cp /srv/jail/lib/ld-* /srv/jail/lib64/; LD_LIBRARY_PATH=/lib chroot /srv/jail /bin/true")
	})
	t.Run("devices", func(t *testing.T) {
		m.says(t, "nobody", "echo x > /dev/null && head -c 4 /dev/urandom | wc -c | grep -q 4 && ls -ld /dev/shm && echo y > /dev/shm/y && test -d /dev/pts")
		c := m.script("nobody", "tty; stty size")
		c.Terminal = &processes.Size{Rows: 30, Columns: 90}
		if s, out := m.does(t, c); s.Code != 0 || !strings.Contains(out, "/dev/pts/") || !strings.Contains(out, "30 90") {
			t.Errorf("terminal: %+v, %q", s, out)
		}
	})
	t.Run("view", func(t *testing.T) {
		cores, memory := "1", policy.Default().Memory
		if isolation == policy.GVisor { // its kernel has two cores at least, and needs memory itself
			cores, memory = "2", memory+sandbox.ForeignMemory
		}
		if got, want := m.says(t, "", "nproc; grep MemTotal /proc/meminfo | tr -dc 0-9; hostname"), fmt.Sprintf("%s\n%dassay", cores, memory/job.KiB); got != want {
			t.Errorf("%q; want %q", got, want)
		}
		if got := m.says(t, "", "cat /proc/net/dev | grep -c :; python3 -c \"import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('connected')\""); got != "1\nconnected" {
			t.Errorf("network: %q", got)
		}
		if got := m.says(t, "", "cat /proc/1/comm; ls /proc | grep -c '^[0-9]'"); !strings.HasPrefix(got, "guest\n") {
			t.Errorf("processes: %q", got)
		}
	})
	t.Run("background", func(t *testing.T) {
		m.says(t, "", "nohup sh -c 'while :; do echo beat >> /tmp/beats; sleep 0.05; done' >/dev/null 2>&1 &")
		m.says(t, "", "while ! test -s /tmp/beats; do sleep 0.01; done; n=$(wc -l < /tmp/beats); sleep 0.5; test $(wc -l < /tmp/beats) -gt $n; r=$?; kill -9 -1; exit $r")
	})
	t.Run("killing everything", func(t *testing.T) {
		m.says(t, "", "sleep 300 >/dev/null 2>&1 & kill -9 -1; while cat /proc/[0-9]*/comm 2>/dev/null | grep -q sleep; do :; done")
		signals := "$(seq 64)"
		if isolation == policy.GVisor { // its kernel passes process 1 every signal
			signals = "HUP INT QUIT USR1 USR2 ALRM TERM"
		}
		m.says(t, "", "for s in "+signals+"; do kill -$s 1 2>/dev/null; done; true")
		if got := m.says(t, "", "{ trap '' TERM; kill -TERM $$; sh -c 'kill -TERM $$; echo ignored'; trap - TERM; sh -c 'kill -TERM $$; echo not reached'; echo $?; } 2>/dev/null"); got != "ignored\n143" {
			t.Errorf("signals of programs: %q", got)
		}
		if got := m.says(t, "", "cat /opt/tool/x"); got != "data" {
			t.Errorf("after all processes were killed: %q", got)
		}
	})
	t.Run("files", func(t *testing.T) {
		c := processes.Command{Argv: []string{"/run/assay/guest", "file", `{"op":"stat","path":"/home/agent/file"}`}, User: "agent"}
		if s, out := m.does(t, c); s.Code != 0 || !strings.Contains(out, `"uid":65534`) {
			t.Errorf("%+v, %s", s, out)
		}
	})
	t.Run("usage", func(t *testing.T) {
		u, err := m.Usage()
		if err != nil || u.CPU < 10*time.Millisecond || u.MemoryPeak < 1<<20 || u.ProcessesPeak < 2 || u.Disk == 0 {
			t.Errorf("%+v, %v", u, err)
		}
	})
}

// The limits hold for the machine, which survives them.
func TestMachineLimits(t *testing.T) {
	t.Parallel()
	r := newRuntime(t, nil)
	m := newMachine(t, r, func(p *policy.Policy) {
		p.Disk, p.Files, p.Memory, p.Processes, p.OpenFiles = 32*job.MiB, 500, 64*job.MiB, 30, 100
	})
	for name, x := range map[string]struct{ text, says string }{
		"disk":       {"head -c 100000000 /dev/zero > /usr/large", "No space left"},
		"files":      {"i=0; while [ $i -lt 2000 ]; do : > /srv/$i || exit 1; i=$((i+1)); done", "No space left"},
		"processes":  {"for i in $(seq 100); do sleep 60 & done", "fork"},
		"files open": {"python3 -c 'import os\nwhile True: os.open(\"/etc/passwd\", 0)'", "Too many open files"},
	} {
		s, out := m.does(t, m.script("", "("+x.text+") 2>&1"))
		if s.Code == 0 || !strings.Contains(out, x.says) {
			t.Errorf("%s: %+v, %.300q", name, s, out)
		}
		_, _ = m.does(t, m.script("", "kill -9 -1; rm -rf /usr/large /srv/*; true"))
	}
	s, out := m.does(t, m.script("", "python3 -c 'x = bytearray(500_000_000)'"))
	if s.Signal != 9 && s.Code != 137 {
		t.Errorf("memory: %+v, %q", s, out)
	}
	u, err := m.Usage()
	if err != nil || u.OOMKills == 0 || u.ForksRefused == 0 {
		t.Errorf("usage: %+v, %v", u, err)
	}
	if got := m.says(t, "", "echo alive"); got != "alive" {
		t.Errorf("afterwards: %q", got)
	}
}

// What a machine cannot be is refused by the name of the field.
func TestMachineRefusals(t *testing.T) {
	t.Parallel()
	r := newRuntime(t, nil)
	for name, x := range map[string]struct {
		edit  func(*policy.Policy)
		image string
		field string
	}{
		"isolation": {func(p *policy.Policy) { p.Isolation = policy.VM }, testenv.Image, "policy.isolation"},
		"network":   {func(p *policy.Policy) { p.Network.Mode = policy.NetworkAllow }, testenv.Image, "policy.network.mode"},
		"image":     {nil, "no-such-image", "image"},
	} {
		_, err := r.Machine(t.Context(), runtime.MachineSpec{ID: job.NewID(), Image: x.image, Plan: machinePolicy(t, r, x.edit)})
		wrong := new(job.FieldError)
		if !errors.As(err, &wrong) || wrong.Field != x.field {
			t.Errorf("%s: %v; want a refusal of %s", name, err, x.field)
		}
	}
}

// A closed machine leaves nothing on the host.
func TestMachineLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRuntime(t, nil)
	var all []*inside
	for range 3 {
		m := newMachine(t, r, nil)
		m.says(t, "", "echo x > /etc/x; sleep 300 >/dev/null 2>&1 &")
		all = append(all, m)
	}
	if got := all[0].says(t, "", "ls /etc/x"); got != "/etc/x" {
		t.Error(got)
	}
	for _, m := range all {
		m.Close()
		m.Close()
	}
	left := ""
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(20 * time.Millisecond) {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		slots, _ := filepath.Glob(r.dir + "/slots/*")
		disks, _ := filepath.Glob(r.dir + "/disks/[0-9]*")
		groups, _ := filepath.Glob("/sys/fs/cgroup/*" + r.Cgroup() + "/*-*")
		left = fmt.Sprint(slots, disks, groups, strings.Contains(string(mounts), r.dir+"/slots/"), strings.Contains(string(mounts), r.dir+"/disks/"))
		if left == "[] [] [] false false" {
			return
		}
	}
	t.Errorf("left: %s", left)
}

// BenchmarkMachine measures a machine from its creation over one program to its end.
func BenchmarkMachine(b *testing.B) {
	r := newRuntime(b, nil)
	p := policy.Default()
	p.Isolation, p.Disk, p.Files, p.Processes = policy.Task, 1*job.GiB, 100_000, 100
	spec := runtime.MachineSpec{ID: job.NewID(), Image: testenv.Image, Plan: &policy.Plan{Policy: p}}
	for b.Loop() {
		m, err := r.Machine(b.Context(), spec)
		if err != nil {
			b.Fatal(err)
		}
		c := processes.NewClient(m.Conn())
		go func() { _ = c.Run(m.Conn()) }()
		program, err := c.Start(b.Context(), processes.Command{Argv: []string{"/bin/true"}}, nil)
		if err != nil {
			b.Fatal(err)
		}
		if s, err := program.Wait(b.Context()); err != nil || s.Code != 0 {
			b.Fatalf("%+v, %v", s, err)
		}
		m.Close()
	}
}
