package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/assay-run/assay/pkg/queue/identity"
)

// maxPayload limits a message. It is generous: larger specs and results go through the object
// store.
const maxPayload = 8 << 20

// NATSConfig configures a server. Only Dir is required.
type NATSConfig struct {
	// Dir holds JetStream's files.
	Dir string
	// Port on 127.0.0.1; 0 takes a free one.
	Port int
	// Key authenticates dispatchers, and the server lets them decide which other clients may connect. With nil, every
	// process on this machine may connect and has all permissions.
	Key *identity.Key
	// Cluster makes the server a member of a cluster; nil: it is alone.
	Cluster *NATSCluster
	// Logger receives the server's log; default slog.Default.
	Logger *slog.Logger
}

// NATSCluster describes the place of a server in its cluster.
type NATSCluster struct {
	Node   string   // unique name of the server: storage is placed by names
	Listen string   // host and port for the other servers
	Peers  []string // host and port of the other servers; may include its own
}

// NATS is a nats-server inside this process.
type NATS struct{ server *server.Server }

// StartNATS runs a server with JetStream on 127.0.0.1.
func StartNATS(ctx context.Context, cfg NATSConfig) (*NATS, error) {
	if cfg.Dir == "" {
		return nil, errors.New("start nats: no directory")
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	opts := &server.Options{
		ServerName: "assay-dev",
		Host:       "127.0.0.1",
		Port:       cfg.Port,
		MaxPayload: maxPayload,
		JetStream:  true,
		StoreDir:   cfg.Dir,
		NoSigs:     true, // this program handles signals
	}
	if cfg.Key != nil {
		issuer, dispatcher := cfg.Key.Public()
		opts.Nkeys = []*server.NkeyUser{{Nkey: dispatcher}}
		opts.AuthCallout = &server.AuthCallout{Issuer: issuer, Account: server.DEFAULT_GLOBAL_ACCOUNT, AuthUsers: []string{dispatcher}}
		opts.AuthTimeout = 3 // seconds for the dispatcher's answer
	}
	if cfg.Port == 0 {
		opts.Port = server.RANDOM_PORT
	}
	if cfg.Cluster != nil {
		if err := cfg.Cluster.configure(opts); err != nil {
			return nil, fmt.Errorf("start nats: %w", err)
		}
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("start nats: %w", err)
	}
	log := natsLog{log: cfg.Logger.With("component", "nats"), fatal: make(chan string, 1)}
	s.SetLoggerV2(log, false, false, false)
	n := &NATS{server: s}
	s.Start() // starts its own goroutines and returns
	if err := n.waitReady(ctx, log.fatal); err != nil {
		n.Stop()
		return nil, fmt.Errorf("start nats on 127.0.0.1:%d in %s: %w", cfg.Port, cfg.Dir, err)
	}
	return n, nil
}

// configure adds the cluster to a server's options.
func (c *NATSCluster) configure(opts *server.Options) error {
	host, text, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("address in the cluster: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("address in the cluster: %w", err)
	}
	opts.ServerName = c.Node
	opts.Cluster = server.ClusterOpts{Name: "assay", Host: host, Port: port, NoAdvertise: true}
	opts.Routes = server.RoutesFromStr("nats://" + strings.Join(c.Peers, ",nats://"))
	return nil
}

// waitReady returns when clients can connect. The server reports some failures (a taken port, a damaged store) only as a
// fatal log line.
func (n *NATS) waitReady(ctx context.Context, fatal <-chan string) error {
	for {
		if n.server.ReadyForConnections(10*time.Millisecond) && n.server.JetStreamEnabled() {
			return nil
		}
		select {
		case reason := <-fatal:
			return errors.New(reason)
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
}

// ClientURL returns the address for clients.
func (n *NATS) ClientURL() string {
	addr, ok := n.server.Addr().(*net.TCPAddr)
	if !ok {
		return n.server.ClientURL()
	}
	return "nats://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(addr.Port))
}

// Stop disconnects all clients and closes the store. Stopping twice does nothing.
func (n *NATS) Stop() {
	n.server.Shutdown()
	n.server.WaitForShutdown()
}

// natsLog writes the server's log lines to slog. Its notices are about itself starting and stopping, hence debug here.
type natsLog struct {
	log   *slog.Logger
	fatal chan string
}

var _ server.Logger = natsLog{}

func (l natsLog) Noticef(format string, v ...any) { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Warnf(format string, v ...any)   { l.write(slog.LevelWarn, format, v) }
func (l natsLog) Errorf(format string, v ...any)  { l.write(slog.LevelError, format, v) }
func (l natsLog) Debugf(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }
func (l natsLog) Tracef(format string, v ...any)  { l.write(slog.LevelDebug, format, v) }

// Fatalf does not end the process: StartNATS returns the message, or it is logged.
func (l natsLog) Fatalf(format string, v ...any) {
	select {
	case l.fatal <- fmt.Sprintf(format, v...):
	default:
		l.write(slog.LevelError, format, v)
	}
}

func (l natsLog) write(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "nats-server", "line", fmt.Sprintf(format, v...))
	}
}
