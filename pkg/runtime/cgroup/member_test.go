package cgroup

import (
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

func TestInside(t *testing.T) {
	t.Parallel()
	const v1 = "9:name=systemd:/a\n4:memory:/a\n2:cpu,cpuacct:/a\n1:pids:/a\n0::/a\n"
	for _, c := range []struct {
		text, path  string
		controllers []string
		want        bool
	}{
		{v1, "/a", v1Controllers, true},
		{v1, "/a/b", v1Controllers, false},
		{"4:memory:/a\n2:cpu,cpuacct:/b\n1:pids:/a\n", "/a", v1Controllers, false},
		{"4:memory:/a\n1:pids:/a\n0::/a\n", "/a", v1Controllers, false},
		{"0::/a\n", "/a", []string{""}, true},
		{"0::/a (deleted)\n", "/a", []string{""}, false},
		{"", "/a", []string{""}, false},
	} {
		if got := inside(c.text, c.path, c.controllers); got != c.want {
			t.Errorf("%q is inside of %s: %v", c.text, c.path, got)
		}
	}
}

func TestHas(t *testing.T) {
	testenv.Needs(t, "root")
	h, err := Detect(DefaultRoot)
	if err != nil {
		t.Fatal(err)
	}
	g, err := h.Create("/assay-has-test/inner")
	if err != nil {
		t.Fatal(err)
	}
	defer h.RemoveAll(t.Context(), "/assay-has-test")
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	expect := func(when string, want bool) {
		t.Helper()
		if in, err := g.Has(pid); err != nil || in != want {
			t.Errorf("%s: %v, %v", when, in, err)
		}
	}
	expect("outside", false)
	if err := g.Add(pid); err != nil {
		t.Error(err)
	}
	expect("inside", true)
	if !h.V2() { // one hierarchy is not enough
		if err := write("/sys/fs/cgroup/memory/cgroup.procs", strconv.Itoa(pid)); err != nil {
			t.Error(err)
		}
		expect("half outside", false)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	expect("dead", false)
	if in, err := g.Has(os.Getpid()); err != nil || in {
		t.Errorf("ourselves: %v, %v", in, err)
	}
}
