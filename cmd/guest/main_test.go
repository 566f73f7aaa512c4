package main

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/guest"
	"github.com/assay-run/assay/internal/guest/processes"
)

// asGuest makes this test binary the guest.
const asGuest = "GUEST_TEST_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(asGuest) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func command(args ...string) *exec.Cmd {
	c := exec.Command(os.Args[0], args...)
	c.Env = append(os.Environ(), asGuest+"=1")
	c.Stderr = os.Stderr
	return c
}

// The guest starts programs for the worker, which inherit nothing, and ends with the connection.
func TestMachine(t *testing.T) {
	socket := t.TempDir() + "/socket"
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	server := command("machine", socket)
	server.ExtraFiles = []*os.File{null, null}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	var hello guest.Hello
	if err := guest.Decode(conn, &hello, guest.MaxWord); err != nil || hello.Version != guest.Version {
		t.Fatalf("%+v, %v", hello, err)
	}
	c := processes.NewClient(conn)
	over := make(chan error, 1)
	go func() { over <- c.Run(conn) }()
	var out strings.Builder
	p, err := c.Start(t.Context(), processes.Command{Argv: []string{"ls", "/proc/self/fd"}}, func(p *processes.Process, _ int, data []byte) {
		out.Write(data)
		_ = p.Taken(len(data))
	})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := p.Wait(t.Context()); err != nil || s.Code != 0 || out.String() != "0\n1\n2\n3\n" { // the last is the directory itself
		t.Errorf("%+v, %v, descriptors %q", s, err, out.String())
	}
	_ = conn.Close()
	if err := server.Wait(); err != nil {
		t.Errorf("the end of the guest: %v", err)
	}
	<-over
}

func TestFile(t *testing.T) {
	out, err := command("file", `{"op":"stat","path":"/etc/passwd"}`).Output()
	if err != nil || !strings.Contains(string(out), `"name":"passwd"`) {
		t.Errorf("%s, %v", out, err)
	}
	failing := command("file", `{"op":"read","path":"/etc/no-such-file"}`)
	failing.Stderr = nil
	_, err = failing.Output()
	if x, ok := err.(*exec.ExitError); !ok || x.ExitCode() != 1 || !strings.Contains(string(x.Stderr), "not_found") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestUnknownArguments(t *testing.T) {
	if err := run([]string{"dance"}); err == nil || !strings.Contains(err.Error(), "dance") {
		t.Error(err)
	}
}
