package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime/containerd/engine"
	"github.com/assay-run/assay/pkg/runtime/hostcheck"
)

// level is an isolation with a container for each job, and its engine.
type level struct {
	isolation policy.Isolation
	engine    *engine.Engine
	// proxied runs jobs with a network. Nil: engine does.
	proxied *engine.Engine
	// foreign means that the sandbox has its own kernel: on this host its programs are one or a few
	// processes in the container's group.
	foreign bool
}

// through returns the engine for a job with this network policy.
func (l *level) through(m policy.NetworkMode) *engine.Engine {
	if m != policy.NetworkNone && l.proxied != nil {
		return l.proxied
	}
	return l.engine
}

// openLevels opens the configured levels. The self-check determines whether they work.
func (r *Runtime) openLevels() (err error) {
	r.levels = map[policy.Isolation]*level{policy.Task: {isolation: policy.Task, engine: r.engine}}
	if r.cfg.Runsc != "" {
		if r.levels[policy.GVisor], err = r.newGVisor(); err != nil {
			return err
		}
	}
	if r.cfg.VMRuntime != "" {
		vm, err := r.engine.Of(r.cfg.VMRuntime, "", "")
		if err != nil {
			return err
		}
		r.levels[policy.VM] = &level{isolation: policy.VM, engine: vm, foreign: true}
	}
	return nil
}

// newGVisor makes the shim of runc run runsc instead of runc, as Docker does.
func (r *Runtime) newGVisor() (*level, error) {
	l := &level{isolation: policy.GVisor, foreign: true}
	// A directory such as /run may be mounted noexec, so this one is a separate mount.
	dir := filepath.Join(r.dir, "runsc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"); err != nil {
		return nil, fmt.Errorf("mount a place for runsc: %w", err)
	}
	for network, e := range map[string]**engine.Engine{
		// A separate network stack with loopback only.
		"none": &l.engine,
		// The host's stack inside the sandbox's network namespace. Only the worker's proxy listens
		// there, and no other route leads out.
		"host": &l.proxied,
	} {
		binary := filepath.Join(dir, "runsc-"+network)
		script := "#!/bin/sh\nexec " + quote(r.cfg.Runsc) + " " + strings.Join(hostcheck.RunscFlags(network), " ") + ` "$@"` + "\n"
		if err := os.WriteFile(binary, []byte(script), 0o700); err != nil {
			return nil, err
		}
		var err error
		if *e, err = r.engine.Of(r.cfg.Runtime, binary, "/run/containerd/runsc"); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
