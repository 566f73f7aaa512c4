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

// level is an isolation that has a container for each job, and what runs those.
type level struct {
	isolation policy.Isolation
	engine    *engine.Engine
	// proxied runs the jobs that have a way out; nil: engine does.
	proxied *engine.Engine
	// foreign says that programs run on a kernel of the sandbox's own: to this
	// host they are one process, or a few, in the group of the container.
	foreign bool
}

// through returns what runs a job with the policy's network.
func (l *level) through(m policy.NetworkMode) *engine.Engine {
	if m != policy.NetworkNone && l.proxied != nil {
		return l.proxied
	}
	return l.engine
}

// openLevels opens those that this host is configured for; whether they work,
// the self-check finds out.
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

// newGVisor has the shim of runc run runsc in the place of runc, as Docker does.
func (r *Runtime) newGVisor() (*level, error) {
	l := &level{isolation: policy.GVisor, foreign: true}
	// Below /run, say, nothing may be executed unless it is a mount of its own.
	dir := filepath.Join(r.dir, "runsc")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := unix.Mount("assay", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"); err != nil {
		return nil, fmt.Errorf("mount a place for runsc: %w", err)
	}
	for network, e := range map[string]**engine.Engine{
		// Its own stack of protocols, with loopback and nothing else.
		"none": &l.engine,
		// The host's, within the network namespace of the sandbox, in which the
		// worker's proxy listens and from which nothing else leads.
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
