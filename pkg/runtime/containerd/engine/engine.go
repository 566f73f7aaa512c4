// Package engine creates and destroys the containers of one worker, each with one task whose
// process 1 is held by a descriptor.
//
// After a failure or a kill of the worker, the label identifies remaining containers: List returns
// them, and Remove removes them. Deletion is retried instead of waiting for an exit event, because
// such events can be lost.
package engine

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

// The labels of all containers.
const (
	labelInstance = "assay.dev/instance"
	labelWorker   = "assay.dev/worker"
)

// Maker identifies the owner of containers and their containerd.
type Maker struct {
	Client   *client.Client
	Instance string // unique in this containerd, and constant between runs
	Worker   string // for people
}

// Engine creates containers with one handler of containerd. It calls containerd's services
// directly, because the client's wrappers read the container's record before each step.
type Engine struct {
	Maker
	runtime containers.RuntimeInfo
}

// Of returns an engine for a handler. binary replaces runc in the shim of runc, and root is its
// state directory. If both are empty, the handler's defaults apply.
func (m Maker) Of(handler, binary, root string) (*Engine, error) {
	e := &Engine{Maker: m, runtime: containers.RuntimeInfo{Name: handler}}
	if binary == "" && root == "" {
		return e, nil
	}
	opts, err := typeurl.MarshalAny(&runcoptions.Options{BinaryName: binary, Root: root})
	if err != nil {
		return nil, fmt.Errorf("runtime options: %w", err)
	}
	e.runtime.Options = opts
	return e, nil
}

// Handler returns the name of the handler.
func (e *Engine) Handler() string { return e.runtime.Name }

// Container is a container with its task.
type Container struct {
	ID     string
	Proc   *process.Process // process 1; nil until the task is created
	engine *Engine
}

// Create creates a container and its task, ready to start. After a failure, Destroy removes the
// remains.
func (e *Engine) Create(ctx context.Context, id string, s *specs.Spec) (*Container, error) {
	c := &Container{engine: e, ID: id}
	labels := map[string]string{labelInstance: e.Instance, labelWorker: e.Worker}
	spec, err := typeurl.MarshalAny(s)
	if err != nil {
		return c, fmt.Errorf("container %s: %w", id, err)
	}
	_, err = e.Client.ContainerService().Create(ctx, containers.Container{
		ID: id, Labels: labels, Runtime: e.runtime, Spec: spec,
	})
	if err != nil {
		return c, fmt.Errorf("create container %s: %w", id, err)
	}
	task, err := e.Client.TaskService().Create(ctx, &tasks.CreateTaskRequest{ContainerID: id})
	if err != nil {
		return c, fmt.Errorf("create task %s: %w", id, errgrpc.ToNative(err))
	}
	if c.Proc, err = process.Open(int(task.Pid)); err != nil {
		return c, fmt.Errorf("create task %s: %w", id, err)
	}
	return c, nil
}

// Start starts process 1.
func (c *Container) Start(ctx context.Context) error {
	if _, err := c.engine.Client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: c.ID}); err != nil {
		return fmt.Errorf("start task %s: %w", c.ID, errgrpc.ToNative(err))
	}
	return nil
}

// Label adds labels to the container's record.
func (c *Container) Label(ctx context.Context, labels map[string]string) error {
	paths := make([]string, 0, len(labels))
	for k := range labels {
		paths = append(paths, "labels."+k)
	}
	_, err := c.engine.Client.ContainerService().Update(ctx, containers.Container{ID: c.ID, Labels: labels}, paths...)
	if err != nil {
		return fmt.Errorf("label container %s: %w", c.ID, err)
	}
	return nil
}

// Kill kills process 1, and with it everything in the container.
func (c *Container) Kill() error {
	if c.Proc == nil {
		return nil
	}
	return c.Proc.Kill()
}

// Destroy kills the container and removes all of its records. It also works for an incomplete
// container, and may be repeated after a failure.
func (c *Container) Destroy(ctx context.Context) error {
	if err := c.Kill(); err != nil {
		return fmt.Errorf("kill container %s: %w", c.ID, err)
	}
	if err := c.engine.Remove(ctx, c.ID); err != nil {
		return err
	}
	if c.Proc != nil {
		c.Proc.Close()
	}
	return nil
}

// Remove deletes the task and the container with this id, and waits until they are gone.
func (e *Engine) Remove(ctx context.Context, id string) error {
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 200*time.Millisecond) {
		_, err := e.Client.TaskService().Delete(ctx, &tasks.DeleteTaskRequest{ContainerID: id})
		if err = errgrpc.ToNative(err); err == nil || errdefs.IsNotFound(err) {
			break
		}
		if !errdefs.IsFailedPrecondition(err) && !running(err) {
			return fmt.Errorf("delete task %s: %w", id, err)
		}
		_, err = e.Client.TaskService().Kill(ctx, &tasks.KillRequest{ContainerID: id, Signal: uint32(unix.SIGKILL), All: true})
		if err = errgrpc.ToNative(err); err != nil && !errdefs.IsNotFound(err) && !running(err) {
			return fmt.Errorf("kill task %s: %w", id, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("task %s does not end: %w", id, context.Cause(ctx))
		case <-time.After(wait):
		}
	}
	if err := e.Client.ContainerService().Delete(ctx, id); err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("delete container %s: %w", id, err)
	}
	return nil
}

// running reports whether err means that the shim has not yet seen the process exit, for which
// there is no specific code.
func running(err error) bool {
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && errdefs.IsUnknown(err)
}

// List returns the ids of this instance's containers from all engines.
func (m Maker) List(ctx context.Context) ([]string, error) {
	found, err := m.Client.ContainerService().List(ctx, fmt.Sprintf("labels.%q==%s", labelInstance, m.Instance))
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	ids := make([]string, len(found))
	for i, c := range found {
		ids[i] = c.ID
	}
	return ids, nil
}
