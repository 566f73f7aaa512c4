package jetstream_test

import (
	"testing"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/queue/jetstream"
)

// TestDeployedConfiguration checks that the server with the configuration in deploy accepts a dispatcher with
// the key and a worker with the pool's token, and rejects other clients.
func TestDeployedConfiguration(t *testing.T) {
	key, err := identity.ParseKey(identity.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	issuer, public := key.Public()
	t.Setenv("ASSAY_NATS_ISSUER", issuer)
	t.Setenv("ASSAY_NATS_DISPATCHER", public)
	o, err := natsd.ProcessConfigFile("../../../deploy/nats/nats.conf")
	if err != nil {
		t.Fatal(err)
	}
	o.Host, o.Port, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", natsd.RANDOM_PORT, t.TempDir(), true, true
	if o.HTTPHost != "127.0.0.1" || o.HTTPPort == 0 {
		t.Errorf("health checks are answered at %q:%d", o.HTTPHost, o.HTTPPort)
	}
	o.HTTPPort = natsd.RANDOM_PORT
	s, err := natsd.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server does not start")
	}
	d := connect(t, jetstream.Config{URL: s.ClientURL(), Key: key})
	served := make(chan error, 1)
	go func() { served <- d.Serve(t.Context(), &witness{}) }()
	t.Cleanup(func() {
		if err := testenv.Receive(t, "the end of serving", served); err != nil {
			t.Error(err)
		}
	})
	who, err := identity.NewWorker("w", "default", key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	w := connect(t, jetstream.Config{URL: s.ClientURL(), Worker: &who})
	if _, err := w.Consumer(t.Context(), "default"); err != nil {
		t.Error(err)
	}
	if _, err := w.Heartbeat(t.Context(), control.HeartbeatRequest{Worker: control.WorkerInfo{ID: who.ID}}); err != nil {
		t.Error(err)
	}
	if nc, err := nats.Connect(s.ClientURL()); err == nil {
		nc.Close()
		t.Error("a stranger was let in")
	}
}
