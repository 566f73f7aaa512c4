// Package engine makes and destroys containers of one containerd: of one worker's, each with one
// task, whose process 1 is known by a descriptor.
//
// What a failure or a kill of the worker leaves behind is found by its label: List names it, and
// Remove removes it. Deleting is tried again rather than told by an exit event, because such
// events can be lost.
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

// The labels that all containers have.
const (
	labelInstance = "assay.dev/instance"
	labelWorker   = "assay.dev/worker"
)

// Maker says whose containers are made, and where.
type Maker struct {
	Client   *client.Client
	Instance string // that no other worker of this containerd has, and that stays the same from run to run
	Worker   string // for people
}

// Engine makes containers that one handler of containerd runs. It talks to containerd's services
// directly: the client's own wrappers ask for the container's record again before each of
// their steps.
type Engine struct {
	Maker
	runtime containers.RuntimeInfo
}

// Of returns an engine for a handler. binary is what the shim of runc runs in the place of
// runc, and root where that keeps its state; without either, the handler decides.
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

// Handler is the name of what runs the containers.
func (e *Engine) Handler() string { return e.runtime.Name }

// Container is a container with its task.
type Container struct {
	ID     string
	Proc   *process.Process // process 1; nil until the task is created
	engine *Engine
}

// Create makes a container and its task, ready to be started. What a failure
// leaves behind is removed by Destroy.
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

// Kill kills process 1 and so, by the kernel's doing, everything in the
// container.
func (c *Container) Kill() error {
	if c.Proc == nil {
		return nil
	}
	return c.Proc.Kill()
}

// Destroy kills the container and removes every record of it. It may be called
// for a container that was only half made, or again after it failed.
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

// Remove deletes the task and the container called id, and waits until they are gone.
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

// running reports whether err is a shim's way of saying that it has not yet
// seen the process exit; it has no code of its own for that.
func running(err error) bool {
	return err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) && errdefs.IsUnknown(err)
}

// List returns the ids of this instance's containers, whichever engine made them.
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
