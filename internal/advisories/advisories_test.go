package advisories

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func ids(found []Finding) []string {
	out := []string{}
	for _, f := range found {
		out = append(out, f.ID)
	}
	return out
}

func TestOpen(t *testing.T) {
	t.Parallel()
	of2025 := []string{"CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"}
	for name, c := range map[string]struct {
		program, version, changelog string
		want                        []string
	}{
		"runc of 2023":                    {"runc", "1.1.5+ds1", "", append([]string{"CVE-2024-21626"}, of2025...)},
		"runc that Debian patched":        {"runc", "1.1.5+ds1", "runc (1.1.5+ds1-1+deb12u1)\n  * CVE-2024-21626: several breakouts", of2025},
		"runc before the last of 1.2":     {"runc", "1.2.7", "", of2025},
		"the last runc of 1.2":            {"runc", "1.2.8", "", nil},
		"runc before the last of 1.3":     {"runc", "1.3.2", "", of2025},
		"a newer runc of 1.3":             {"runc", "1.3.9-1~ubuntu", "", nil},
		"a branch of runc to come":        {"runc", "1.9.0", "", nil},
		"a branch of runc that was given": {"runc", "1.0.3", "", append([]string{"CVE-2024-21626"}, of2025...)},
		"containerd of Debian 12": {"containerd", "1.6.20~ds1", "* Fix overly broad permissions, Fixes: CVE-2024-25621\n* Fixes: CVE-2024-40635",
			[]string{"CVE-2026-53488"}},
		"containerd 2.1":            {"containerd", "v2.1.4", "", []string{"CVE-2024-25621", "CVE-2026-53488"}},
		"containerd 2.3":            {"containerd", "2.3.2", "", nil},
		"a kernel before the pipe":  {"kernel", "5.4.0", "", []string{"CVE-2024-1086"}},
		"a kernel of 5.10":          {"kernel", "5.10.100-1", "", []string{"CVE-2022-0847", "CVE-2024-1086"}},
		"a kernel of 6.1":           {"kernel", "6.1.0-18-amd64", "", []string{"CVE-2024-1086", "CVE-2025-38236"}},
		"a newer kernel of 6.1":     {"kernel", "6.1.150", "", nil},
		"a kernel between branches": {"kernel", "6.9.3", "", []string{"CVE-2025-38236"}},
		"a new kernel":              {"kernel", "6.18.44-fc", "", nil},
		"no version":                {"kernel", "unknown", "", nil},
		"another program":           {"crun", "0.1", "", nil},
	} {
		if got := ids(Sorted(Open(c.program, c.version, c.changelog))); !slices.Equal(got, append([]string{}, c.want...)) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestVersionsThatAreDays checks that a gVisor built by scripts/runsc is as old as its commit.
func TestVersionsThatAreDays(t *testing.T) {
	t.Parallel()
	for version, day := range map[string]int{"release-20260901.0": 20260901, "v0.0.0-20260905035102-160fafc42237": 20260905, "v0.0.0": 0} {
		if n, ok := parse(version); !ok || n != (number{day}) {
			t.Errorf("%s: %v, %v, want day %d", version, n, ok, day)
		}
	}
}

// TestTable checks that each row has a source, and versions that can be parsed.
func TestTable(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^CVE-20\d\d-\d{4,}$`)
	for _, h := range holes {
		if !id.MatchString(h.ID) || h.What == "" || !strings.HasPrefix(h.Source, "https://") || len(h.Fixed) == 0 {
			t.Errorf("%+v lacks something", h)
		}
		if !slices.Contains([]string{"kernel", "runc", "containerd", "runsc"}, h.Program) {
			t.Errorf("%s: nobody is asked for the version of %q", h.ID, h.Program)
		}
		for _, v := range h.Fixed {
			if _, ok := parse(v); !ok {
				t.Errorf("%s: %q is no version", h.ID, v)
			}
		}
	}
}

// fake returns a host with these files, and programs that print these versions.
func fake(t *testing.T, files, programs map[string]string) Host {
	t.Helper()
	h := Host{Root: t.TempDir()}
	lay := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(h.Root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, text := range files {
		if strings.HasSuffix(name, ".gz") {
			var b strings.Builder
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte(text))
			_ = z.Close()
			text = b.String()
		}
		lay(name, text, 0o644)
	}
	said := func(name string) string {
		if text, ok := programs[name]; ok {
			return lay("bin/"+name, "#!/bin/sh\necho '"+text+"'\n", 0o755)
		}
		return filepath.Join(h.Root, "none")
	}
	h.Runc, h.Containerd, h.Runsc = said("runc"), said("containerd"), said("runsc")
	return h
}

func TestExamine(t *testing.T) {
	h := fake(t, map[string]string{
		"proc/sys/kernel/osrelease":                 "6.18.44\n",
		"usr/share/doc/runc/changelog.Debian.gz":    "runc (1.1.5+ds1-1+deb12u1) bookworm-security\n  * CVE-2024-21626\n",
		"usr/share/doc/containerd/changelog.gz":     "containerd\n * CVE-2024-25621 CVE-2024-40635 CVE-2026-53488\n",
		"proc/sys/kernel/core_pattern":              "|/usr/lib/systemd/systemd-coredump %P\n",
		"proc/sys/kernel/unprivileged_bpf_disabled": "0\n",
		"proc/sys/kernel/yama/ptrace_scope":         "1\n",
	}, map[string]string{
		"runc":       "runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev",
		"containerd": "containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3",
		"runsc":      "runsc version VERSION_MISSING\nspec: 1.2.1",
	})
	found, unknown := h.Examine(t.Context())
	if got, want := ids(found), []string{"CVE-2025-31133", "CVE-2025-52565", "CVE-2025-52881"}; !slices.Equal(got, want) {
		t.Errorf("found %v, want %v", got, want)
	}
	if len(found) > 0 && (!found[0].Logged || found[0].Version != "1.1.5+ds1" || strings.Contains(found[0].String(), "may have patched")) {
		t.Errorf("%+v: its package's change log was read", found[0])
	}
	if len(unknown) != 1 || !strings.Contains(unknown[0], "runsc") {
		t.Errorf("unknown %v, want the version of runsc", unknown)
	}
	stamped := filepath.Join(h.Root, "bin", "runsc")
	if err := os.WriteFile(stamped, []byte("#!/bin/sh\necho 'runsc version v0.0.0-20260905035102-160fafc42237'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, unknown := h.Examine(t.Context()); len(unknown) != 0 {
		t.Errorf("unknown %v of a runsc that was told its version", unknown)
	}
	if lax := h.Settings(); len(lax) != 2 {
		t.Errorf("settings %q, want the core pattern and bpf", lax)
	}
}

func TestExamineWithoutPrograms(t *testing.T) {
	h := fake(t, map[string]string{"proc/sys/kernel/osrelease": "5.15.10"}, nil)
	h.Runsc = ""
	found, unknown := h.Examine(t.Context())
	if len(found) != 3 || found[0].Program != "kernel" || !strings.Contains(found[0].String(), "your distribution may have patched it") {
		t.Errorf("found %v, want three of the kernel", found)
	}
	if len(unknown) != 2 {
		t.Errorf("unknown %v, want the versions of runc and containerd", unknown)
	}
}
