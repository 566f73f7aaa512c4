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
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--debug-listen: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	slog.InfoContext(ctx, "serving profiles", "address", l.Addr().String())
	return func() error {
		err := srv.Close()
		<-done
		return err
	}, nil
}
