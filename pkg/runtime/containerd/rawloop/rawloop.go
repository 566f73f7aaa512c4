// Package rawloop is the baseline of isolation task: the best performance of a plain containerd
// client, without queue, records, or limits and walls beyond the engine's defaults. One turn is
// create, start, wait and delete.
package rawloop

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/assay-run/assay/pkg/runtime/cgroup"
)

// Loop runs one command repeatedly, each time in a new container.
type Loop struct {
	client *client.Client
	image  client.Image
	argv   []string
	names  atomic.Int64
	prefix string
	groups *cgroup.Hierarchy
	binary string // replaces runc in its shim; "": runc
}

// Through makes the shim run binary, such as runsc, instead of runc.
func (l *Loop) Through(binary string) { l.binary = binary }

func (l *Loop) runtime() client.NewContainerOpts {
	if l.binary == "" {
		return client.WithRuntime("io.containerd.runc.v2", nil)
	}
	return client.WithRuntime("io.containerd.runc.v2", &runcoptions.Options{BinaryName: l.binary, Root: "/run/containerd/runsc"})
}

// closeTimeout limits the removal of an unused group.
const closeTimeout = 10 * time.Second

// Open connects to containerd. The image must be in the namespace, and unpacked for the default
// snapshotter.
func Open(ctx context.Context, address, namespace, image string, argv ...string) (*Loop, error) {
	groups, err := cgroup.Detect(cgroup.DefaultRoot)
	if err != nil {
		return nil, err
	}
	c, err := client.New(address, client.WithDefaultNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("connect to containerd at %s: %w", address, err)
	}
	img, err := c.GetImage(ctx, image)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("image %s in namespace %s: %w", image, namespace, err), c.Close())
	}
	return &Loop{client: c, image: img, argv: argv, groups: groups,
		prefix: "rawloop-" + strconv.FormatInt(time.Now().UnixNano(), 36)}, nil
}

// Close disconnects and removes the containers' parent group, which the engine creates and leaves
// behind.
func (l *Loop) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return errors.Join(l.client.Close(), l.groups.RemoveAll(ctx, l.group()))
}

// group returns the parent cgroup of all containers.
func (l *Loop) group() string { return "/" + l.prefix }

// Run runs turns concurrently until d has passed. It returns the number of completed turns and the
// elapsed time. It stops at the first error.
func (l *Loop) Run(ctx context.Context, parallel int, d time.Duration) (turns int, took time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	var done atomic.Int64
	began := time.Now()
	for range parallel {
		wg.Go(func() {
			for time.Since(began) < d && ctx.Err() == nil {
				if err := l.turn(ctx); err != nil {
					cancel(err)
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return int(done.Load()), time.Since(began), context.Cause(ctx)
}

func (l *Loop) turn(ctx context.Context) (err error) {
	name := l.prefix + "-" + strconv.FormatInt(l.names.Add(1), 10)
	c, err := l.client.NewContainer(ctx, name,
		l.runtime(), client.WithImage(l.image), client.WithNewSnapshot(name, l.image),
		client.WithNewSpec(oci.WithImageConfig(l.image), oci.WithProcessArgs(l.argv...), oci.WithCgroup(l.group()+"/"+name)))
	if err != nil {
		return fmt.Errorf("create container: %w", err)
	}
	defer func() { // in any case: leave nothing behind
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, c.Delete(clean, client.WithSnapshotCleanup))
	}()
	task, err := c.NewTask(ctx, cio.NullIO)
	if err != nil {
		return fmt.Errorf("create task: %w", err)
	}
	defer func() {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		_, e := task.Delete(clean, client.WithProcessKill)
		err = errors.Join(err, e)
	}()
	exit, err := task.Wait(ctx) // before Start, to see a fast exit
	if err != nil {
		return fmt.Errorf("wait: %w", err)
	}
	if err := task.Start(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	select {
	case status := <-exit:
		code, _, err := status.Result()
		if err == nil && code != 0 {
			err = fmt.Errorf("the command exited with %d", code)
		}
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
