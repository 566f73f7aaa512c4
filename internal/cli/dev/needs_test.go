package dev

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// executables creates a directory of programs that do nothing.
func executables(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestWhatLacksIsSaid(t *testing.T) {
	t.Parallel()
	ours := executables(t, "dispatcher", "worker", "guest")
	all := executables(t, "containerd", "containerd-shim-runc-v2", "ctr", "runc")
	debian := func(more ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(append(more, "apt-get"), name) }
	}
	whole := machine{root: true, self: "/venv/assay", path: all, postgres: func() error { return nil }, has: debian("mmdebstrap")}
	for name, c := range map[string]struct {
		change func(*machine, *FleetConfig)
		says   []string // the whole output, in order; empty: no program is missing
	}{
		"whole":         {func(*machine, *FleetConfig) {}, nil},
		"not root":      {func(m *machine, _ *FleetConfig) { m.root = false }, []string{"root: ", "run: sudo /venv/assay"}},
		"no containerd": {func(m *machine, _ *FleetConfig) { m.path = executables(t, "runc", "ctr", "containerd-shim-runc-v2") }, []string{"containerd: containerd is neither", "install --no-install-recommends containerd"}},
		"no shim":       {func(m *machine, _ *FleetConfig) { m.path = executables(t, "runc", "ctr", "containerd") }, []string{"containerd: containerd-shim-runc-v2 is neither", "recommends containerd"}},
		"no runc": {func(m *machine, _ *FleetConfig) {
			m.path = executables(t, "containerd", "ctr", "containerd-shim-runc-v2")
		}, []string{"runc: runc is neither", "recommends runc"}},
		"no Postgres": {func(m *machine, _ *FleetConfig) {
			m.postgres = func() error { return errors.New("no postgres") }
		},
			[]string{"Postgres: no postgres", "recommends postgresql"}},
		"no mmdebstrap": {func(m *machine, _ *FleetConfig) { m.has = debian() }, []string{"image: ", "mmdebstrap", "--image-archive", "recommends mmdebstrap"}},
		"an archive":    {func(m *machine, c *FleetConfig) { m.has, c.ImageArchives = debian(), []string{"x.tar"} }, nil},
		"not Debian":    {func(m *machine, _ *FleetConfig) { m.has = func(string) bool { return false } }, []string{"image: ", "assay image build", "--image-archive"}},
		"not Debian, runc": {func(m *machine, c *FleetConfig) {
			m.has, m.path, c.ImageArchives = func(string) bool { return false }, executables(t, "containerd", "ctr", "containerd-shim-runc-v2"), []string{"x.tar"}
		}, []string{"runc: ", "Debian's package runc"}},
		"no programs": {func(_ *machine, c *FleetConfig) { c.BinDir = executables(t, "worker") }, []string{"dispatcher: ", "make build", "guest: "}},
		"noop needs little": {func(m *machine, c *FleetConfig) {
			m.root, m.path, m.has, c.Runtime, c.BinDir = false, "", debian(), "noop", executables(t, "dispatcher", "worker")
		}, nil},
		"nothing at all": {func(m *machine, _ *FleetConfig) {
			*m = machine{self: "/venv/assay", postgres: func() error { return errors.New("none") }, has: debian()}
		}, []string{"Postgres: ", "root: ", "containerd: containerd is", "containerd: containerd-shim", "containerd: ctr is", "runc: ", "image: ",
			"run: sudo apt-get install --no-install-recommends postgresql containerd runc mmdebstrap"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, cfg := whole, FleetConfig{BinDir: ours, ImageCache: t.TempDir()}
			c.change(&m, &cfg)
			err := cfg.lacks(m).err()
			if (err == nil) != (len(c.says) == 0) {
				t.Fatalf("got %v", err)
			}
			rest := ""
			if err != nil {
				rest = err.Error()
			}
			for _, want := range c.says {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Errorf("%q is not said, or not after what is before it, in\n%v", want, err)
				}
				rest = after
			}
		})
	}
}

// passed lists the settings of dispatcher and worker that a fleet on one machine passes to them from the environment.
var passed = []string{
	"ASSAY_AUDIT_RETENTION", "ASSAY_CELL", "ASSAY_CONTAINERD_NAMESPACE", "ASSAY_CPU", "ASSAY_DROP_INS", "ASSAY_EGRESS_NETNS", "ASSAY_EGRESS_NEVER", "ASSAY_EGRESS_PRIVATE", "ASSAY_ENVIRONMENT_SPACE",
	"ASSAY_ENVIRONMENT_WITNESSES", "ASSAY_GRACE", "ASSAY_IMAGES", "ASSAY_IMAGE_CREDENTIALS", "ASSAY_IMAGE_REGISTRIES", "ASSAY_IMAGE_SPACE",
	"ASSAY_INFRA_BUDGET", "ASSAY_INSECURE", "ASSAY_LABELS", "ASSAY_LEASE_TTL", "ASSAY_LOG_LEVEL", "ASSAY_MEMORY", "ASSAY_MEMORY_RESERVE",
	"ASSAY_PIP_INDEX", "ASSAY_POISON_AFTER", "ASSAY_POOL", "ASSAY_POOLS", "ASSAY_PRELOAD_MEMORY", "ASSAY_QUEUE_LIFE", "ASSAY_REFUSE_KNOWN_HOLES", "ASSAY_RETENTION",
	"ASSAY_RUNTIMES", "ASSAY_SLOTS", "ASSAY_SPOOL", "ASSAY_TENANTS_FILE", "ASSAY_TOKENS", "ASSAY_WARM_MEMORY",
}

// TestEverySettingIsDecided checks that each setting is either passed from the environment or the fleet's own.
func TestEverySettingIsDecided(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`env:"(ASSAY_[A-Z_]+)"`)
	found := map[string]bool{}
	for _, pattern := range []string{"../../../cmd/*/config.go", "../../../cmd/*/access.go", "../../../cmd/*/seams.go", "../../../pkg/queue/jetstream/files.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				found[m[1]] = true
			}
		}
	}
	for name := range found {
		if own, pass := slices.Contains(ownSettings, name), slices.Contains(passed, name); own == pass {
			t.Errorf("%s: it is the fleet's own to say (%v), or is handed on (%v): one of them; see own.go and here", name, own, pass)
		}
	}
	for _, name := range slices.Concat(ownSettings, passed) {
		if !found[name] {
			t.Errorf("%s: no program has this setting", name)
		}
	}
}

func TestFromHere(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{"0.0.0.0:80": "127.0.0.1:80", "[::]:80": "127.0.0.1:80", "127.0.0.1:80": "127.0.0.1:80", "192.0.2.1:80": "192.0.2.1:80", "[::1]:80": "[::1]:80"} {
		if got := localAddress(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
