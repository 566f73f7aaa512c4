package dev

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/assay-run/assay/internal/daemon"
)

// machine describes the machine of a fleet.
type machine struct {
	root     bool
	self     string            // this program's path
	path     string            // directories of containerd's programs, separated by colons
	postgres func() error      // the reason why a server cannot run; nil: it can
	has      func(string) bool // a program in PATH
}

func thisMachine() machine {
	self, err := os.Executable()
	if err != nil {
		self = "assay"
	}
	return machine{root: os.Geteuid() == 0, self: self, path: daemon.SearchPath(), postgres: canRunPostgres,
		has: func(name string) bool { _, err := exec.LookPath(name); return err == nil }}
}

// canRunPostgres returns an error if a requirement of StartPostgres is missing.
func canRunPostgres() error {
	dir, err := findPostgres("")
	if err != nil {
		return errors.New("postgres is neither in PATH nor where Debian keeps it, " + debianPostgres)
	}
	if !executable(filepath.Join(dir, "initdb")) {
		return fmt.Errorf("initdb is not beside %s", filepath.Join(dir, "postgres"))
	}
	return nil
}

// lack is a missing requirement of a fleet.
type lack struct {
	what, why string
	packages  []string // Debian packages that provide it
}

// lacks is the list of missing requirements.
type lacks struct {
	on  machine
	all []lack
}

// lacks returns the missing requirements of a fleet on a machine. It starts nothing.
func (cfg FleetConfig) lacks(on machine) lacks {
	l := lacks{on: on}
	l.programs(cfg)
	if err := on.postgres(); err != nil {
		l.add("Postgres", err.Error(), "postgresql")
	} else if _, err := serverAccount(); err != nil {
		l.add("Postgres", err.Error())
	}
	if cfg.Runtime == "noop" {
		return l
	}
	l.root("containerd makes namespaces and mounts for other people's code")
	for _, name := range daemon.MissingContainerd(on.path) {
		pkg := "containerd"
		if name == "runc" {
			pkg = name
		}
		l.add(pkg, name+" is neither in PATH nor in /usr/sbin", pkg)
	}
	if cfg.needsImage() {
		l.image()
	}
	return l
}

func (l *lacks) add(what, why string, packages ...string) {
	l.all = append(l.all, lack{what, why, packages})
}

// root requires this program to run as root.
func (l *lacks) root(why string) {
	if !l.on.root {
		l.add("root", why+"; run: sudo "+strings.Join(append([]string{l.on.self}, os.Args[1:]...), " "))
	}
}

// programs requires our own programs, which are installed together.
func (l *lacks) programs(cfg FleetConfig) {
	names := []string{"dispatcher", "worker"}
	if cfg.Runtime != "noop" {
		names = append(names, "guest")
	}
	for _, name := range names {
		if path := cfg.program(name); !executable(path) {
			l.add(name, path+" is not there; it comes with assay: install that again (in a clone of the repository: make build)")
		}
	}
}

// image requires the tools that build the default image.
func (l *lacks) image() {
	switch {
	case !l.on.has("apt-get"):
		l.add("image", "there is no archive of the default image, and without apt-get this system cannot build it; build it on Debian or Ubuntu with "+
			"assay image build, and name it here with --image-archive")
	case !l.on.has("mmdebstrap"):
		l.add("image", "there is no archive of the default image, and mmdebstrap, which builds it, is not in PATH; or name an archive with --image-archive",
			"mmdebstrap")
	}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

// err is nil if nothing is missing. It includes the command that installs all missing packages.
func (l lacks) err() error {
	if len(l.all) == 0 {
		return nil
	}
	var text strings.Builder
	text.WriteString("missing on this machine:")
	var packages []string
	for _, x := range l.all {
		fmt.Fprintf(&text, "\n  %s: %s", x.what, x.why)
		for _, p := range x.packages {
			if !slices.Contains(packages, p) {
				packages = append(packages, p)
			}
		}
	}
	switch list := strings.Join(packages, " "); {
	case list == "":
	case !l.on.has("apt-get"):
		fmt.Fprintf(&text, "\ninstall Debian's package %s, or its equivalent, with this system's package manager", list)
	case l.on.root:
		text.WriteString("\nrun: apt-get install --no-install-recommends " + list)
	default:
		text.WriteString("\nrun: sudo apt-get install --no-install-recommends " + list)
	}
	return errors.New(text.String())
}
