package containerd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/containerd/api/services/tasks/v1"
	runcoptions "github.com/containerd/containerd/api/types/runc/options"
	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/pkg/runtime/process"
)

// The labels of our containers.
const (
	labelInstance = "assay.dev/instance"
	labelWorker   = "assay.dev/worker"
	labelJob      = "assay.dev/job"
	labelLease    = "assay.dev/lease"
	labelDeadline = "assay.dev/deadline" // RFC 3339
)

// engine makes and destroys containers. It talks to containerd's services
// directly: the client's own wrappers ask for the container's record again
// before each of their steps.
type engine struct {
	client  *client.Client
	runtime containers.RuntimeInfo
}

// newEngine returns one for a handler; opts are the runc shim's, nil for its own.
func newEngine(c *client.Client, handler string, opts *runcoptions.Options) (*engine, error) {
	e := &engine{client: c, runtime: containers.RuntimeInfo{Name: handler}}
	if opts != nil {
		opts, err := typeurl.MarshalAny(opts)
		if err != nil {
			return nil, fmt.Errorf("runtime options: %w", err)
		}
		e.runtime.Options = opts
	}
	return e, nil
}

// container is a container with its task. Its process is set once the task is
// created.
type container struct {
	engine *engine
	id     string
	proc   *process.Process
}

// create makes a container and its task, ready to be started. What a failure
// leaves behind is removed by destroy.
func (e *engine) create(ctx context.Context, id string, s *specs.Spec, labels map[string]string) (*container, error) {
	c := &container{engine: e, id: id}
	spec, err := typeurl.MarshalAny(s)
	if err != nil {
		return c, fmt.Errorf("container %s: %w", id, err)
	}
	_, err = e.client.ContainerService().Create(ctx, containers.Container{
		ID: id, Labels: labels, Runtime: e.runtime, Spec: spec,
	})
	if err != nil {
		return c, fmt.Errorf("create container %s: %w", id, err)
	}
	task, err := e.client.TaskService().Create(ctx, &tasks.CreateTaskRequest{ContainerID: id})
	if err != nil {
		return c, fmt.Errorf("create task %s: %w", id, errgrpc.ToNative(err))
	}
	if c.proc, err = process.Open(int(task.Pid)); err != nil {
		return c, fmt.Errorf("create task %s: %w", id, err)
	}
	return c, nil
}

// start starts process 1.
func (c *container) start(ctx context.Context) error {
	if _, err := c.engine.client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: c.id}); err != nil {
		return fmt.Errorf("start task %s: %w", c.id, errgrpc.ToNative(err))
	}
	return nil
}

// label adds labels to the container's record.
func (c *container) label(ctx context.Context, labels map[string]string) error {
	paths := make([]string, 0, len(labels))
	for k := range labels {
		paths = append(paths, "labels."+k)
	}
	_, err := c.engine.client.ContainerService().Update(ctx, containers.Container{ID: c.id, Labels: labels}, paths...)
	if err != nil {
		return fmt.Errorf("label container %s: %w", c.id, err)
	}
	return nil
}

// kill kills process 1 and so, by the kernel's doing, everything in the
// container.
func (c *container) kill() error {
	if c.proc == nil {
		return nil
	}
	return c.proc.Kill()
}

// destroy kills the container and removes every record of it. It may be called
// for a container that was only half made, or again after it failed.
func (c *container) destroy(ctx context.Context) error {
	if err := c.kill(); err != nil {
		return fmt.Errorf("kill container %s: %w", c.id, err)
	}
	if err := c.engine.remove(ctx, c.id); err != nil {
		return err
	}
	if c.proc != nil {
		c.proc.Close()
	}
	return nil
}

// remove deletes the task and the container called id. Deleting is retried
// rather than told by an exit event, because such events can be lost.
func (e *engine) remove(ctx context.Context, id string) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		_, err := e.client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
		if err = errgrpc.ToNative(err); err == nil || errdefs.IsNotFound(err) {
			break
		}
		if !errdefs.IsFailedPrecondition(err) && !running(err) {
			return fmt.Errorf("delete task %s: %w", id, err)
		}
		_, err = e.client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(unix.SIGKILL), All: true})
		if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) && !running(err) {
			return fmt.Errorf("kill task %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("task %s does not end: %w", id, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
	if err := e.client.ContainerService().Delete(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete container %s: %w", id, err)
	}
	return nil
}

// running reports whether err is a shim's way of saying that it has not yet
// seen the process exit; it has no code of its own for that.
func running(err error) bool {
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && errdefs.IsUnknown(err)
}

// list returns the ids of this instance's containers.
func (e *engine) list(ctx context.Context, instance string) ([]string, error) {
	found, err := e.client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%s", labelInstance, instance))
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	ids := make([]string, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	return ids, nil
}
