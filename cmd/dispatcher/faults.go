//go:build faults

package main

import (
	"github.com/assay-run/assay/internal/dispatcher"
	"github.com/assay-run/assay/internal/dispatcher/httpapi"
	"github.com/assay-run/assay/internal/fault"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

type objects interface {
	dispatcher.Objects
	httpapi.Objects
}

// unreliable injects faults between this program and its dependencies.
func unreliable(s store.Store, q *jetstream.Queue, o *object.Store) (store.Store, dispatcher.Queue, objects, error) {
	in, err := fault.FromEnv()
	if err != nil || in == nil {
		return s, q, o, err
	}
	line := struct {
		queue.Publisher
		control.Server
		control.Bus
	}{&fault.Publisher{Publisher: q, In: in}, q, &fault.Bus{Bus: q, In: in}}
	return &fault.Store{Store: s, In: in}, line, &fault.Objects{Store: o, In: in}, nil
}
