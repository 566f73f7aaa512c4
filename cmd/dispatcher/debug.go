package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"time"
)

// serveDebug serves profiles on an address of their own until stop; on none if
// addr is empty. They are no part of the API: a profile shows memory, and taking
// one takes time.
func serveDebug(ctx context.Context, addr string) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return serveAside(ctx, "serving profiles", "--debug-listen", addr, mux)
}

// serveMetrics serves /metrics at an address of its own.
func serveMetrics(ctx context.Context, addr string, metrics http.Handler) (stop func() error, err error) {
	if addr == "" {
		return func() error { return nil }, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	return serveAside(ctx, "serving metrics", "--metrics-listen", addr, mux)
}

// serveAside serves what is not the API until stop.
func serveAside(ctx context.Context, message, flag, addr string, h http.Handler) (stop func() error, err error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	slog.InfoContext(ctx, message, "address", l.Addr().String())
	return func() error {
		err := srv.Close()
		<-done
		return err
	}, nil
}
