package dev_test

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/testenv"
)

// serverInfo returns the information that a NATS server sends to every client.
func serverInfo(t *testing.T, url string) (info struct {
	MaxPayload int  `json:"max_payload"`
	JetStream  bool `json:"jetstream"`
},
) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(url, "nats://"), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return info
}

func startNATS(t *testing.T, cfg dev.NATSConfig) *dev.NATS {
	t.Helper()
	testenv.Needs(t, "NATS")
	cfg.Logger = slog.New(slog.DiscardHandler)
	n, err := dev.StartNATS(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Stop) // again after the test's own: the second stop does nothing
	return n
}

func TestNATSServesJetStreamOnLoopback(t *testing.T) {
	t.Parallel()
	n := startNATS(t, dev.NATSConfig{Dir: t.TempDir()})
	if !strings.HasPrefix(n.ClientURL(), "nats://127.0.0.1:") {
		t.Errorf("ClientURL = %s", n.ClientURL())
	}
	if info := serverInfo(t, n.ClientURL()); info.MaxPayload != 8<<20 || !info.JetStream {
		t.Errorf("the server says %+v; want 8 MiB and JetStream", info)
	}
	n.Stop()
	if conn, err := net.Dial("tcp", strings.TrimPrefix(n.ClientURL(), "nats://")); err == nil {
		conn.Close()
		t.Error("it answers after Stop")
	}
}

func TestNATSRestartsOnTheSamePort(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := startNATS(t, dev.NATSConfig{Dir: dir})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(n.ClientURL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	n.Stop()
	again := startNATS(t, dev.NATSConfig{Dir: dir, Port: number})
	if again.ClientURL() != n.ClientURL() {
		t.Errorf("ClientURL = %s, was %s", again.ClientURL(), n.ClientURL())
	}

	_, err = dev.StartNATS(t.Context(), dev.NATSConfig{Dir: t.TempDir(), Port: number})
	if err == nil || !strings.Contains(err.Error(), port) || !strings.Contains(err.Error(), "in use") {
		t.Errorf("start on a taken port: %v; want an error that names port %s", err, port)
	}
}
