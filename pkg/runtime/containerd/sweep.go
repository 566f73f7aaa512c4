package containerd

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// sweep removes everything of this instance. It runs when no slot is live: at the start, for the
// remains of a killed worker, and at the end.
func (r *Runtime) sweep(ctx context.Context) error {
	ids, err := r.engine.List(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, id := range ids {
		errs = append(errs, r.engine.Remove(ctx, id))
	}
	errs = append(errs, r.cgroups.RemoveAll(ctx, "/assay-"+r.instance))
	errs = append(errs, unmountBelow(r.dir))
	errs = append(errs, os.RemoveAll(filepath.Join(r.dir, "slots")), os.RemoveAll(filepath.Join(r.dir, "cells")))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if r.background.Context().Err() != nil {
		return nil
	}
	return errors.Join(os.MkdirAll(filepath.Join(r.dir, "slots"), 0o711), os.MkdirAll(filepath.Join(r.dir, "cells"), 0o711))
}

// removeState removes our own directory with its known content. It removes the state directory as
// well, if it is empty.
func (r *Runtime) removeState() error {
	var errs []error
	for _, d := range []string{"slots", "cells", "dev", "bare", "images", "guest", "runsc", "environments", "disks", "lock"} {
		errs = append(errs, os.RemoveAll(filepath.Join(r.dir, d)))
	}
	_ = os.Remove(r.dir)
	_ = os.Remove(filepath.Dir(r.dir)) // unless there is more
	return errors.Join(errs...)
}

// unmountBelow unmounts everything below dir, latest first. Missing mounts were unmounted
// elsewhere.
func unmountBelow(dir string) error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	points, err := mountsBelow(table, dir)
	if err != nil {
		return err
	}
	slices.Reverse(points)
	return unmountAll(points)
}

// unmountAll unmounts each existing mount point. After a failure it continues with the others.
func unmountAll(points []string) error {
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// mountsBelow reads the mount points below dir in the format of proc(5)'s mountinfo, in which a
// space is \040 and so on.
func mountsBelow(table []byte, dir string) ([]string, error) {
	var points []string
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	lines := bufio.NewScanner(bytes.NewReader(table))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return nil, fmt.Errorf("mountinfo: unexpected line %q", lines.Text())
		}
		if p := unescape.Replace(fields[4]); strings.HasPrefix(p, dir+"/") {
			points = append(points, p)
		}
	}
	return points, lines.Err()
}
