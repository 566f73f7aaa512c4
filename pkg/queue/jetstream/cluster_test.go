package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
	"github.com/assay-run/assay/pkg/store"
)

// startCluster starts three servers, and returns the addresses of all for clients.
func startCluster(t *testing.T, with ...func(*dev.NATSConfig)) (nodes []*server, urls string) {
	t.Helper()
	var peers, at []string
	for range 3 {
		peers = append(peers, testenv.Address(t))
	}
	for i, listen := range peers {
		joins := func(c *dev.NATSConfig) {
			c.Cluster = &dev.NATSCluster{Node: fmt.Sprintf("n%d", i), Listen: listen, Peers: peers}
		}
		n := startServer(t, slices.Concat(with, []func(*dev.NATSConfig){joins})...)
		nodes, at = append(nodes, n), append(at, n.url)
	}
	return nodes, strings.Join(at, ",")
}

// leading is the number of the node that leads the stream.
func leading(t *testing.T, js natsjs.JetStream) (n int) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		s, err := js.Stream(ctx, "JOBS")
		cancel()
		if err == nil && s.CachedInfo().Cluster != nil {
			if _, err := fmt.Sscanf(s.CachedInfo().Cluster.Leader, "n%d", &n); err == nil {
				return n
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("nobody leads the stream: ", err)
		}
	}
}

func dispatches(n int) (ds []store.Dispatch) {
	for range n {
		ds = append(ds, store.Dispatch{Ref: store.Ref{Job: job.NewID(), Generation: 1}, Pool: "p"})
	}
	return ds
}

// TestClusterWithoutMajority checks that a stream that cannot store for lack of a majority does not count as
// dead, however impatient the dispatcher. Later it has the messages that were queued then.
func TestClusterWithoutMajority(t *testing.T) {
	t.Parallel()
	nodes, urls := startCluster(t) // there is no leader yet, and who asks for one is not answered
	q := connect(t, jetstream.Config{URL: urls, Replicas: 3, RemakeAfter: time.Second})
	c, err := q.Consumer(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	ds := dispatches(100) // so many are one atomic batch
	if err := q.Publish(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	if err := q.Publish(t.Context(), ds[:1]); err != nil {
		t.Error("published twice: ", err)
	}
	leader := leading(t, nodes[0].admin(t))
	admin := nodes[leader].admin(t)
	connect(t, jetstream.Config{URL: urls, Replicas: 1}) // another dispatcher, set up otherwise
	if s, err := admin.Stream(t.Context(), "JOBS"); err != nil || s.CachedInfo().Config.Replicas != 3 {
		t.Fatalf("a dispatcher with fewer replicas changed the stream: %v, %v", s, err)
	}
	before, err := admin.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if i != leader {
			n.nats.Stop()
		}
	}
	// The second try is refused because of the first, which no server has stored.
	if err := q.Publish(t.Context(), dispatches(1)); !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("one node of three: got %v, want %v", err, job.ErrUnavailable)
	}
	for i, n := range nodes {
		if i != leader {
			n.start(t)
		}
	}
	leading(t, admin)
	after, err := admin.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if !after.CachedInfo().Created.Equal(before.CachedInfo().Created) {
		t.Error("the stream was made anew")
	}
	out := make(chan queue.Message, len(ds)+1)
	for deadline := time.Now().Add(60 * time.Second); len(out) < len(ds); {
		if _, err := c.Fetch(t.Context(), len(ds)-len(out), 2*time.Second, out); time.Now().After(deadline) {
			t.Fatalf("%d of %d were delivered: %v", len(out), len(ds), err)
		}
	}
}

// TestClusterKnowsItsWorkers checks that every server of a cluster asks any dispatcher, at any server, for a
// worker's identity, and uses the answer.
func TestClusterKnowsItsWorkers(t *testing.T) {
	t.Parallel()
	key, err := identity.ParseKey(identity.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	nodes, _ := startCluster(t, func(c *dev.NATSConfig) { c.Key = key })
	dispatcher := connect(t, jetstream.Config{URL: nodes[0].url, Replicas: 3, Key: key})
	if _, err := dispatcher.Consumer(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	ds := dispatches(3)
	if err := dispatcher.Publish(t.Context(), ds); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		worker := connectAs(t, n, key, fmt.Sprintf("worker%d", i), "p", 0)
		c, err := worker.Consumer(t.Context(), "p")
		if err != nil {
			t.Fatal(err)
		}
		out := make(chan queue.Message, 1)
		for deadline := time.Now().Add(60 * time.Second); len(out) == 0; {
			if _, err := c.Fetch(t.Context(), 1, 5*time.Second, out); time.Now().After(deadline) {
				t.Fatalf("at server %d nothing was delivered: %v", i, err)
			}
		}
		if err := testenv.Receive(t, "the message", out).Ack(); err != nil {
			t.Error(err)
		}
	}
}
