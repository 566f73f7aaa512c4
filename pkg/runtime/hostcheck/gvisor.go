package hostcheck

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
)

// RunscFlags returns the flags of runsc for our sandboxes. The worker's socket, in its own
// directory, is the only socket of this host that they can connect to.
func RunscFlags(network string) []string {
	return []string{"--platform=systrap", "--network=" + network, "--host-uds=open", "--overlay2=none", "--cpu-num-from-quota"}
}

// ProbeGVisor runs a program in runsc and returns why it does not work, or nil. It requires root.
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
