package rawloop

import (
	"path/filepath"
	"testing"
	"time"

	client "github.com/containerd/containerd/v2/client"

	"github.com/assay-run/assay/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func TestLoopTurnsAndLeavesNothing(t *testing.T) {
	env := testenv.Containerd(t)
	l, err := Open(t.Context(), env.Address, env.Namespace, env.Image, "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	turns, took, err := l.Run(t.Context(), 2, 500*time.Millisecond)
	if err != nil || turns == 0 || took < 500*time.Millisecond {
		t.Fatalf("Run = %d turns in %v, %v", turns, took, err)
	}
	c, err := client.New(env.Address, client.WithDefaultNamespace(env.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if left, err := c.Containers(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("%d containers are left, %v", len(left), err)
	}
	groups, err := filepath.Glob("/sys/fs/cgroup/*" + l.group())
	if err != nil || len(groups) == 0 && !l.groups.V2() {
		t.Errorf("the containers were not in %s: %v", l.group(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*", "/sys/fs/cgroup"} {
		if left, _ := filepath.Glob(pattern + l.group()); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
}

func TestFailingCommandEndsTheLoop(t *testing.T) {
	env := testenv.Containerd(t)
	l, err := Open(t.Context(), env.Address, env.Namespace, env.Image, "/bin/false")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if turns, _, err := l.Run(t.Context(), 2, time.Minute); err == nil || turns != 0 {
		t.Errorf("Run = %d turns, %v, want an error", turns, err)
	}
}

func TestMissingImage(t *testing.T) {
	env := testenv.Containerd(t)
	if l, err := Open(t.Context(), env.Address, env.Namespace, "assay.local/no-such:latest"); err == nil {
		l.Close()
		t.Error("opened")
	}
}
