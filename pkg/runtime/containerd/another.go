package containerd

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// another names a new sandbox: a token for its directory, a name for its other host objects, and
// its first uid. A program sees all three, so none of them reveals the number of other sandboxes.
func (r *Runtime) another() (token, name string, uid int) {
	random := make([]byte, 6)
	_, _ = rand.Read(random) // never fails
	token = hex.EncodeToString(random)
	return token, r.instance + "-" + r.started + "-" + token, r.ids.Nth(r.next.Add(1))
}

// limitWatches sets a container's share of inotify before its first program.
func (r *Runtime) limitWatches(ctx context.Context, pid int) error {
	cmd := exec.CommandContext(ctx, filepath.Join(r.dir, "guest", "guest"), "limit", strconv.Itoa(pid), r.share.String())
	cmd.Env = []string{"GOMAXPROCS=1", "GOGC=off"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("limit a container's inotify: %w: %s", err, tail(strings.TrimSpace(string(out)), 300))
	}
	return nil
}
