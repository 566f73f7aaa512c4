package queuetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
)

// testCancel checks that a cancel reaches only the worker that it names.
func testCancel(t *testing.T, start starter) {
	b := start(t, longAck)
	dispatcher := b.Connect(t)
	got := map[string]chan store.LeaseRef{}
	for _, worker := range []string{"host.example-1", "host", "host.*"} {
		c := make(chan store.LeaseRef, 10)
		got[worker] = c
		if err := b.Connect(t).OnCancel(t.Context(), worker, func(l store.LeaseRef) { c <- l }); err != nil {
			t.Fatal(err)
		}
	}
	leases := map[string]store.LeaseRef{}
	for worker := range got {
		leases[worker] = store.LeaseRef{Job: job.NewID(), Lease: 5}
		if err := dispatcher.SendCancel(worker, leases[worker]); err != nil {
			t.Fatal(err)
		}
	}
	for worker, c := range got {
		if l := eventually(t, "the cancel for "+worker, c); l != leases[worker] {
			t.Errorf("%s was told to cancel %v, want %v", worker, l, leases[worker])
		}
	}
	for worker, c := range got {
		select {
		case l := <-c:
			t.Errorf("%s was told to cancel %v too", worker, l)
		case <-time.After(moment):
		}
	}
}

// testAssign checks that a job reaches its assigned worker, and the dispatcher gets the worker's
// response.
func testAssign(t *testing.T, start starter) {
	b := start(t, longAck)
	dispatcher := b.Connect(t)
	heard := make(chan control.Assignment, 1)
	var answer error
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := b.Connect(t).OnAssign(ctx, "host.a", func(a control.Assignment) error {
		heard <- a
		return answer
	})
	if err != nil {
		t.Fatal(err)
	}
	want := control.Assignment{
		Claimed: store.Claimed{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Lease: 7, Tenant: "acme", Spec: []byte(`{"a":1}`)},
		Secrets: control.Secrets{"A": "b"}, TTL: job.Duration(time.Minute), StartedAt: time.Now().UTC(), Beat: 5,
	}
	if err := dispatcher.Assign(t.Context(), "host.a", want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, eventually(t, "the assignment", heard)); diff != "" {
		t.Errorf("the worker heard (-want +got):\n%s", diff)
	}
	answer = fmt.Errorf("%w: full", job.ErrRefused)
	if err := dispatcher.Assign(t.Context(), "host.a", want); !errors.Is(err, job.ErrRefused) {
		t.Errorf("refused: %v", err)
	}
	eventually(t, "the refused assignment", heard)
	if err := dispatcher.Assign(t.Context(), "host.b", want); !errors.Is(err, job.ErrLost) {
		t.Errorf("nobody there: %v, want %v", err, job.ErrLost)
	}
}

// testTold checks that subscribers receive workers' messages with the sender's name.
func testTold(t *testing.T, start starter) {
	b := start(t, longAck)
	type told struct{ worker, what string }
	heard := make(chan told, 10)
	for range 2 {
		err := b.Connect(t).OnWorkerEvent(t.Context(), "session-1", func(worker string, payload []byte) { heard <- told{worker, string(payload)} })
		if err != nil {
			t.Fatal(err)
		}
	}
	w := b.Connect(t)
	for _, worker := range []string{"host.example", "host.*"} {
		if err := w.(control.SessionServer).Broadcast(worker, "session-2", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.(control.SessionServer).Broadcast(worker, "session-1", []byte("hi")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := eventually(t, "what was told", heard); got != (told{worker, "hi"}) {
				t.Errorf("heard %v of %s", got, worker)
			}
		}
	}
}

// testWake checks that every subscriber of a topic receives a message until its context ends,
// including the sender.
func testWake(t *testing.T, start starter) {
	b := start(t, longAck)
	q1, q2 := b.Connect(t), b.Connect(t)
	heard1, heard2, other := make(chan string, 10), make(chan string, 10), make(chan string, 10)
	ctx2, stop2 := context.WithCancel(t.Context())
	defer stop2()
	listen := func(ctx context.Context, topic string, c chan string) {
		t.Helper()
		q := q1
		if c == heard2 {
			q = q2
		}
		if err := q.OnWake(ctx, topic, func(p []byte) { c <- string(p) }); err != nil {
			t.Fatal(err)
		}
	}
	listen(t.Context(), "events", heard1)
	listen(ctx2, "events", heard2)
	listen(t.Context(), "other", other)
	wake := func(payload string) {
		t.Helper()
		if err := q1.Wake("events", []byte(payload)); err != nil {
			t.Fatal(err)
		}
	}
	wake("one")
	for _, c := range []chan string{heard1, heard2} {
		if p := eventually(t, "the wake-up", c); p != "one" {
			t.Errorf("heard %q", p)
		}
	}
	stop2()
	wake("two")
	if p := eventually(t, "the wake-up", heard1); p != "two" {
		t.Errorf("heard %q", p)
	}
	select {
	case p := <-other:
		t.Errorf("another topic heard %q", p)
	case <-time.After(moment):
	}
}

// testClasses checks that every worker receives the classes of its pool.
func testClasses(t *testing.T, start starter) {
	b := start(t, longAck)
	heard := make(chan []string, 10)
	for range 2 {
		if err := b.Connect(t).OnClasses(t.Context(), pool, func(classes []string) { heard <- classes }); err != nil {
			t.Fatal(err)
		}
	}
	others := make(chan []string, 10)
	if err := b.Connect(t).OnClasses(t.Context(), "größe", func(classes []string) { others <- classes }); err != nil {
		t.Fatal(err)
	}
	want := []string{"?label.a=b", "default?memory=2Gi"}
	for pool, classes := range map[string][]string{"größe": {"gr%C3%B6%C3%9Fe?label.a=b"}, pool: want} {
		if err := b.Connect(t).SendClasses(pool, classes); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if got := eventually(t, "the classes", heard); !slices.Equal(got, want) {
			t.Errorf("heard %q, want %q", got, want)
		}
	}
	if got := eventually(t, "the classes", others); len(got) != 1 {
		t.Errorf("another pool heard %q", got)
	}
}
