package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
)

// nodeVariable makes this program a NATS server instead: only a process can be killed.
const nodeVariable = "ASSAY_TEST_NATS_NODE"

// node is a NATS server of a cluster.
type node struct {
	*process
	name, dir, at string
}

// serveNode runs a server until it is killed.
func serveNode(text string) {
	var cfg dev.NATSConfig
	err := json.Unmarshal([]byte(text), &cfg)
	if err == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err = dev.StartNATS(ctx, cfg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// startCluster starts n servers, which find each other and elect a leader.
func (f *fleet) startCluster(n int) {
	f.t.Helper()
	program, err := os.Executable()
	if err != nil {
		f.t.Fatal(err)
	}
	var peers []string
	for range n {
		peers = append(peers, testenv.Address(f.t))
	}
	for i := range n {
		name := fmt.Sprintf("nats%d", i)
		s := &node{name: name, dir: filepath.Join(f.dir, name), at: testenv.Address(f.t)}
		_, text, _ := net.SplitHostPort(s.at)
		port, _ := strconv.Atoi(text)
		cfg, err := json.Marshal(dev.NATSConfig{Dir: s.dir, Port: port, Cluster: &dev.NATSCluster{Node: name, Listen: peers[i], Peers: peers}})
		if err != nil {
			f.t.Fatal(err)
		}
		s.process = &process{name: name, path: program, log: filepath.Join(f.dir, name+".log"), env: []string{nodeVariable + "=" + string(cfg)}}
		f.cluster = append(f.cluster, s)
		f.t.Cleanup(func() { s.end(f.t) })
		s.start(f.t)
	}
}

// natsURL returns the address for all clients.
func (f *fleet) natsURL() string {
	if f.cluster == nil {
		return "nats://" + f.natsAt
	}
	var all []string
	for _, s := range f.cluster {
		all = append(all, "nats://"+s.at)
	}
	return strings.Join(all, ",")
}

// streamLed waits until the stream has a leader other than the given one, and returns that node and
// the number of the last message.
func (f *fleet) streamLed(other *node) (leader *node, last uint64) {
	f.t.Helper()
	eventually(f.t, "the stream has a leader", func() bool {
		i, err := f.streamInfo()
		if err != nil || i.Cluster == nil {
			return false
		}
		for _, s := range f.cluster {
			if s.name == i.Cluster.Leader && s != other {
				leader, last = s, i.State.LastSeq
			}
		}
		return leader != nil
	})
	return leader, last
}

// streamInfo returns the stream's state, if it is available.
func (f *fleet) streamInfo() (*jetstream.StreamInfo, error) {
	nc, err := nats.Connect(f.natsURL())
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Second)
	defer cancel()
	s, err := js.Stream(ctx, "JOBS")
	if err != nil {
		return nil, err
	}
	return s.CachedInfo(), nil
}

// others returns the other nodes.
func (f *fleet) others(than *node) (out []*node) {
	for _, s := range f.cluster {
		if s != than {
			out = append(out, s)
		}
	}
	return out
}

// nodeLost kills the stream's leader, one of three servers, and starts it again.
func nodeLost(t *testing.T) {
	f := newFleet(t, shape{workers: 2, nodes: 3, lease: 20 * time.Second})
	n := 300 * *losses
	f.batch(n, always("sleep=200ms"))
	for range *losses {
		more := f.in(job.Finished) + 50
		eventually(t, "some more is done", func() bool { return f.in(job.Finished) > more })
		leader, _ := f.streamLed(nil)
		killed := time.Now()
		leader.kill()
		f.streamLed(leader)
		elected, more := time.Since(killed), f.in(job.Finished)+20 // includes acknowledgements in flight
		eventually(t, "the others go on", func() bool { return f.in(job.Finished) > min(more, n-1) })
		t.Logf("without its leader: another one after %v, jobs recorded again after %v", elected, time.Since(killed))
		leader.start(t)
	}
	f.survived(n)
}

// survived checks n jobs. Acknowledgements that were lost with a server are repeated after an ack
// wait of half a minute, which only the long version waits for.
func (f *fleet) survived(n int) {
	f.t.Helper()
	v := f.recorded()
	if *losses > 1 {
		v = f.check()
	}
	if v.jobs != n {
		f.t.Errorf("%+v", v)
	}
}

// unsyncedLost simulates a power cut that loses the unsynced data of the stream's leader, while the
// only other node with that data is away. The nodes that elect a leader then have lost messages
// acknowledged to dispatchers, and still have messages that workers had acknowledged. (JetStream
// syncs its files every two minutes, unless configured otherwise.)
func unsyncedLost(t *testing.T) {
	for range *losses {
		const n = 500
		f := newFleet(t, shape{workers: 2, nodes: 3, lease: 20 * time.Second}) // its servers are in sync
		f.batch(n, always("sleep=200ms"))
		eventually(t, "a part is done", func() bool { return f.in(job.Finished) > 30 })
		f.loseUnsynced(f.dir + "/synced")
		f.survived(n)
	}
}

func (f *fleet) loseUnsynced(synced string) {
	f.t.Helper()
	leader, _ := f.streamLed(nil)
	behind, ahead := f.others(leader)[0], f.others(leader)[1]
	behind.kill()
	leader.pause() // for a consistent copy of its directory
	err := os.CopyFS(synced, os.DirFS(leader.dir))
	leader.resume()
	if err != nil {
		f.t.Fatal(err)
	}
	more := f.in(job.Finished) + 100
	eventually(f.t, "two nodes go on", func() bool { return f.in(job.Finished) > more })
	f.dispatchers[0].pause() // otherwise it would publish before the check
	_, before := f.streamLed(nil)
	cut := time.Now()
	leader.kill()
	ahead.kill()
	if err := errors.Join(os.RemoveAll(leader.dir), os.Rename(synced, leader.dir)); err != nil {
		f.t.Fatal(err)
	}
	leader.start(f.t)
	behind.start(f.t)
	_, after := f.streamLed(ahead)
	if after >= before {
		f.t.Errorf("nothing was lost: the last message is %d, and was %d", after, before)
	}
	f.t.Logf("messages %d to %d are forgotten; a leader after %v", after+1, before, time.Since(cut))
	f.dispatchers[0].resume()
	ahead.start(f.t) // and has to drop them, too
	f.stale()
	more = min(f.in(job.Finished)+50, f.count("SELECT count(*) FROM jobs"))
	eventually(f.t, "all three go on", func() bool { return f.in(job.Finished) >= more })
	f.t.Logf("50 jobs more are recorded %v after the power cut", time.Since(cut))
}
