package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// host returns a host with these files.
func host(t *testing.T, files map[string]string) Host {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Host{Root: root, Bin: root, Data: root}
}

func TestFindings(t *testing.T) {
	t.Parallel()
	const v1 = "12:pids:/\n11:memory:/\n5:cpu,cpuacct:/\n0::/"
	for name, c := range map[string]struct {
		files map[string]string
		look  func(Host) Finding
		level Level
		found string
	}{
		"new kernel":         {map[string]string{"proc/sys/kernel/osrelease": "6.18.52"}, Host.kernel, OK, "6.18.52"},
		"oldest kernel":      {map[string]string{"proc/sys/kernel/osrelease": "5.10.0-28-amd64"}, Host.kernel, OK, "5.10.0"},
		"old kernel":         {map[string]string{"proc/sys/kernel/osrelease": "4.19.0"}, Host.kernel, Missing, "4.19.0"},
		"no kernel release":  {nil, Host.kernel, Limited, "unknown"},
		"cgroup v2":          {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory pids"}, Host.cgroup, OK, "v2"},
		"cgroup v2 lacking":  {map[string]string{"sys/fs/cgroup/cgroup.controllers": "cpu pids"}, Host.cgroup, Missing, "without memory"},
		"cgroup v1":          {map[string]string{"proc/self/cgroup": v1}, Host.cgroup, OK, "v1"},
		"cgroup v1 lacking":  {map[string]string{"proc/self/cgroup": "11:memory:/"}, Host.cgroup, Missing, "without cpu, pids"},
		"user namespaces":    {map[string]string{"proc/sys/user/max_user_namespaces": "95000"}, Host.userNamespaces, OK, "95000"},
		"no user namespaces": {map[string]string{"proc/sys/user/max_user_namespaces": "0"}, Host.userNamespaces, Missing, "switched off"},
		"AppArmor": {map[string]string{"proc/sys/user/max_user_namespaces": "9",
			"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, Host.userNamespaces, Limited, "AppArmor"},
		"overlay":       {map[string]string{"proc/filesystems": "nodev\tproc\nnodev\toverlay\n\text4"}, Host.overlay, OK, "available"},
		"no overlay":    {map[string]string{"proc/filesystems": "nodev\tproc\n\text4"}, Host.overlay, Limited, "not loaded"},
		"seccomp":       {map[string]string{"proc/sys/kernel/seccomp/actions_avail": "kill_process allow"}, Host.seccomp, OK, "available"},
		"no seccomp":    {nil, Host.seccomp, Missing, "not in this kernel"},
		"memory":        {map[string]string{"proc/meminfo": "MemTotal: 9 kB\nMemAvailable: 25000000 kB"}, Host.memory, OK, "23.8 GiB"},
		"little memory": {map[string]string{"proc/meminfo": "MemAvailable: 250000 kB"}, Host.memory, Limited, "0.2 GiB"},
		"shares": {map[string]string{"proc/sys/kernel/pid_max": "4194304", "proc/sys/fs/inotify/max_user_instances": "100000",
			"proc/sys/fs/inotify/max_user_watches": "100000000"}, Host.shares, OK, "16 inotify instances"},
		"few shares":   {map[string]string{"proc/sys/kernel/pid_max": "4096", "proc/sys/fs/inotify/max_user_instances": "1"}, Host.shares, Limited, "0 inotify instances"},
		"settings":     {map[string]string{"proc/sys/kernel/core_pattern": "core"}, Host.settings, OK, "as they"},
		"lax settings": {map[string]string{"proc/sys/kernel/core_pattern": "|/bin/x"}, Host.settings, Limited, "1 are lax"},
		"no guest":     {nil, Host.guest, Missing, "is not there"},
		"no image":     {nil, Host.images, Limited, "no archive"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := c.look(host(t, c.files))
			if got.Level != c.level || !strings.Contains(got.Found, c.found) {
				t.Errorf("got %+v, want level %s and %q", got, c.level, c.found)
			}
			if (got.Advice == "") != (got.Level == OK) {
				t.Errorf("advice %q at level %s", got.Advice, got.Level)
			}
		})
	}
}

func TestKernelsThatStarveThreads(t *testing.T) {
	t.Parallel()
	for release, level := range map[string]Level{
		"6.12.30":           OK,
		"6.13.0":            Limited,
		"6.13-rc1":          Limited,
		"6.14.0-37-generic": Limited,
		"6.17.13":           Limited,
		"6.18":              Limited,
		"6.18.44-fc":        Limited,
		"6.18.45":           OK,
		"6.19.0-rc1":        Limited,
		"6.19.5":            Limited,
		"7.0.1":             OK,
		"5.18.0":            OK,
	} {
		got := host(t, map[string]string{"proc/sys/kernel/osrelease": release}).kernel()
		if got.Level != level || !strings.HasPrefix(got.Found, release) {
			t.Errorf("%s: %+v, want level %s", release, got, level)
		}
		if level == Limited && got.Advice != "use 6.18.45 or a later 6.18, 7.0 or later, or before 6.13" {
			t.Errorf("%s: advice %q", release, got.Advice)
		}
	}
}

func TestProgramsAreFoundOutsideThePath(t *testing.T) {
	dir := t.TempDir()
	for _, v := range []string{"15", "16"} {
		if err := os.MkdirAll(filepath.Join(dir, v), 0o755); err != nil {
			t.Fatal(err)
		}
		script := "#!/bin/sh\necho prog '(Some) " + v + ".2'\n"
		if err := os.WriteFile(filepath.Join(dir, v, "assay-no-such"), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := program{name: "assay-no-such", dirs: []string{filepath.Join(dir, "*")}}
	if got := p.find(t.Context()); got.Level != OK || !strings.HasPrefix(got.Found, "16.2 at ") {
		t.Errorf("got %+v, want the newest", got)
	}
	if got := (program{name: "assay-no-such"}).find(t.Context()); got.Level != Missing {
		t.Errorf("got %+v, want missing", got)
	}
}

func TestThisHostIsExaminedWhole(t *testing.T) {
	t.Parallel()
	got := Host{Bin: t.TempDir(), Data: t.TempDir()}.Examine(context.Background())
	if len(got) < 15 {
		t.Errorf("only %d findings", len(got))
	}
	if Healthy(got) {
		t.Error("healthy without a guest")
	}
}

func TestIsolation(t *testing.T) {
	t.Parallel()
	fine := []Finding{ok("kernel", "6.1")}
	lacks := errors.New("runsc is not installed")
	for name, c := range map[string]struct {
		found        []Finding
		cell, gvisor error
		want         Finding
	}{
		"all":   {fine, nil, nil, Finding{"isolation", OK, "cell, task, gvisor", ""}},
		"cells": {fine, nil, lacks, Finding{"isolation", OK, "cell, task; no gvisor: runsc is not installed", ""}},
		"tasks": {fine, errors.New("make namespaces: no space left"), nil,
			Finding{"isolation", Limited, "task, gvisor", "no cells: make namespaces: no space left"}},
		"nothing": {append(fine, Finding{"cgroup", Missing, "cgroup v1 without memory", "mount it"}), nil, nil, Finding{"isolation", Missing, "none", "install the missing parts above"}},
	} {
		if got := isolation(c.found, c.cell, c.gvisor); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}

func TestPrivilegesThatLack(t *testing.T) {
	got := judgePrivileges([]hostcheck.Privilege{
		{Name: "CAP_A"}, {Name: "CAP_B", Levels: []policy.Isolation{policy.Task, policy.GVisor}, Lacks: errors.New("not there")},
	})
	if want := (Finding{"privileges", Missing, "no CAP_B", "CAP_B: not there (without it there is no task, gvisor)"}); got != want {
		t.Errorf("got %+v", got)
	}
	if got := judgePrivileges([]hostcheck.Privilege{{Name: "CAP_A"}}); got != ok("privileges", "CAP_A") {
		t.Errorf("got %+v", got)
	}
}
