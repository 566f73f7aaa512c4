package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/assay-run/assay/internal/site"
)

// profiles serves the profiles of this process, without its command line, which may have a token.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// serveMetrics serves /metrics at a separate address until stop. An empty addr disables it. If the
// address is local, the server refuses names other than localhost.
func serveMetrics(ctx context.Context, addr string, metrics http.Handler, local bool) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-listen: %w", err)
	}
	guard := site.Guard{Local: local}
	srv := &http.Server{Handler: guard.Wrap(mux), ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	slog.InfoContext(ctx, "serving metrics", "address", l.Addr().String())
	return func() error {
		err := srv.Close()
		<-done
		return err
	}, nil
}
