package hostcheck

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// RunscFlags are how runsc runs our sandboxes. The socket of the worker, in a
// directory of its own, is all of this host's that can be connected to.
func RunscFlags(network string) []string {
	return []string{"--platform=systrap", "--network=" + network, "--host-uds=open", "--overlay2=none", "--cpu-num-from-quota"}
}

// ProbeGVisor says what keeps runsc from running here, nil if nothing does: it
// has it run a program. It needs root.
func ProbeGVisor(ctx context.Context, runsc string) error {
	root, err := os.MkdirTemp("", "runsc-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	cmd := exec.CommandContext(ctx, runsc, append([]string{"--root=" + root, "--ignore-cgroups"}, append(RunscFlags("none"), "do", "/bin/true")...)...)
	out, err := cmd.CombinedOutput()
	if said := strings.TrimSpace(string(out)); err != nil && said != "" {
		return errors.New(said[max(0, len(said)-300):])
	}
	return err
}
