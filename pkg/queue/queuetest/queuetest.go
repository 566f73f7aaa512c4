// Package queuetest is the specification of a queue: a test suite for every implementation.
package queuetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/store"
)

// Backend is one empty queue, private to one test.
type Backend struct {
	// Connect returns a connection of another process. The backend closes it when the test ends.
	Connect func(t *testing.T) queue.Queue
	// LoseAll deletes all data of the backend.
	LoseAll func(t *testing.T)
	// LoseConsumer deletes the backend's state of a pool's consumer.
	LoseConsumer func(t *testing.T, pool string)
	// Restart restarts the backend with its data.
	Restart func(t *testing.T)
}

// Run runs the suite. start creates a backend with the given ack wait.
func Run(t *testing.T, start func(t *testing.T, ackWait time.Duration) Backend) {
	for name, test := range map[string]func(*testing.T, func(*testing.T, time.Duration) Backend){
		"Delivery":      testDelivery,
		"Pools":         testPools,
		"Duplicate":     testDuplicate,
		"BigBatch":      testBigBatch,
		"MixedBatch":    testMixedBatch,
		"Generations":   testGenerations,
		"Redelivery":    testRedelivery,
		"InProgress":    testInProgress,
		"Nak":           testNak,
		"Bounded":       testBounded,
		"FetchWaits":    testFetchWaits,
		"FetchCanceled": testFetchCanceled,
		"LoseAll":       testLoseAll,
		"LoseConsumer":  testLoseConsumer,
		"Restart":       testRestart,
		"Control":       testControl,
		"ControlErrors": testControlErrors,
		"NoDispatcher":  testNoDispatcher,
		"LargeBodies":   testLargeBodies,
		"OneAnswers":    testOneAnswers,
		"ServeDrains":   testServeDrains,
		"Cancel":        testCancel,
		"Assign":        testAssign,
		"Wake":          testWake,
		"Told":          testTold,
		"Classes":       testClasses,
		"FetchNoWait":   testFetchNoWait,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, start)
		})
	}
}

const (
	pool    = "default"
	longAck = time.Minute      // never passes in a test
	patient = 20 * time.Second // for required events, on a busy machine
	moment  = 300 * time.Millisecond
)

// dispatches returns n dispatches of new jobs.
func dispatches(n int) []store.Dispatch {
	ds := make([]store.Dispatch, n)
	for i := range ds {
		ds[i] = store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: pool}
	}
	return ds
}

func publish(t *testing.T, q queue.Publisher, ds ...store.Dispatch) {
	t.Helper()
	if err := q.Publish(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
}

func consume(t *testing.T, q queue.Queue, pool string) queue.Consumer {
	t.Helper()
	c, err := q.Consumer(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// take fetches exactly n messages.
func take(t *testing.T, c queue.Consumer, n int) []queue.Message {
	t.Helper()
	ms, err := fetch(t.Context(), c, n, patient)
	if err != nil {
		t.Fatal(err)
	}
	if len(ms) != n {
		t.Fatalf("got %d messages, want %d", len(ms), n)
	}
	return ms
}

// none checks that nothing arrives for a while.
func none(t *testing.T, c queue.Consumer, wait time.Duration) {
	t.Helper()
	ms, err := fetch(t.Context(), c, 1, wait)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		t.Errorf("unexpected delivery of %v", m.Ref())
	}
}

// fetch repeats Fetch until n messages have arrived or wait has passed.
func fetch(ctx context.Context, c queue.Consumer, n int, wait time.Duration) (ms []queue.Message, err error) {
	end := time.Now().Add(wait)
	for len(ms) < n && time.Now().Before(end) && ctx.Err() == nil {
		out := make(chan queue.Message, n)
		sent, err := c.Fetch(ctx, n-len(ms), time.Until(end), out)
		if sent != len(out) {
			return ms, fmt.Errorf("fetch has sent %d messages and says %d", len(out), sent)
		}
		if err != nil {
			return ms, err
		}
		close(out)
		for m := range out {
			ms = append(ms, m)
		}
	}
	return ms, nil
}

// refs counts the references of messages.
func refs(ms []queue.Message) map[store.Ref]int {
	seen := map[store.Ref]int{}
	for _, m := range ms {
		seen[m.Ref()]++
	}
	return seen
}

// wantEach checks that every dispatch was delivered exactly once.
func wantEach(t *testing.T, ms []queue.Message, ds []store.Dispatch) {
	t.Helper()
	seen := refs(ms)
	for _, d := range ds {
		if seen[d.Ref] != 1 {
			t.Errorf("%v was delivered %d times", d.Ref, seen[d.Ref])
		}
		delete(seen, d.Ref)
	}
	for ref := range seen {
		t.Errorf("%v was delivered but never published", ref)
	}
}

func ack(t *testing.T, ms ...queue.Message) {
	t.Helper()
	for _, m := range ms {
		if err := m.Ack(); err != nil {
			t.Fatal(err)
		}
	}
}

// eventually waits for a value from another goroutine.
func eventually[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patient):
		t.Fatalf("timed out waiting for %s", what)
	}
	panic("unreachable")
}
