//go:build faults

package main

import (
	"context"

	"github.com/assay-run/assay/internal/fault"
	"github.com/assay-run/assay/internal/worker"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
)

// unreliable injects faults between this program and its dependencies.
func unreliable(p worker.Parts) (worker.Parts, error) {
	in, err := fault.FromEnv()
	if err != nil || in == nil {
		return p, err
	}
	p.Control = &fault.Client{Client: p.Control, In: in}
	p.Objects = &fault.Objects{Store: p.Objects.(*object.Store), In: in}
	class := p.Class
	p.Class = func(ctx context.Context, name string) (queue.Consumer, error) {
		c, err := class(ctx, name)
		if err != nil {
			return nil, err
		}
		return &fault.Consumer{Consumer: c, In: in}, nil
	}
	return p, nil
}
