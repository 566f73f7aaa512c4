//go:build !faults

package main

import (
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// unreliable does nothing without the tag faults: see package fault.
func unreliable(s store.Store, q *jetstream.Queue, o *object.Store) (store.Store, *jetstream.Queue, *object.Store, error) {
	return s, q, o, nil
}
