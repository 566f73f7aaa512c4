package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certLook is the minimum time between checks of the files.
const certLook = time.Second

// certFiles is a server certificate.
type certFiles struct {
	cert, key string
	look      time.Duration

	mu     sync.Mutex
	shown  *tls.Certificate
	looked time.Time
	loaded certStamp // of the loaded certificate, or of the last failed load
}

// certStamp identifies a state of the files.
type certStamp struct{ certAt, keyAt, certSize, keySize int64 }

// openCert reads the files.
func openCert(cert, key string) (*certFiles, error) {
	f := &certFiles{cert: cert, key: key, look: certLook}
	now, err := f.stamp()
	if err != nil {
		return nil, err
	}
	shown, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", cert, key, err)
	}
	f.shown, f.loaded, f.looked = &shown, now, time.Now()
	return f, nil
}

// Config returns a server configuration. It requires TLS 1.2, which browsers and programs of the
// last ten years support.
func (f *certFiles) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.certificate, NextProtos: []string{"h2", "http/1.1"}}
}

// certificate returns the current certificate of the files. If they cannot be read, for example
// between the writes of the two files, it returns the previous certificate.
func (f *certFiles) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) < f.look {
		return f.shown, nil
	}
	f.looked = time.Now()
	now, err := f.stamp()
	if err == nil && now == f.loaded {
		return f.shown, nil
	}
	var next tls.Certificate
	if err == nil {
		next, err = tls.LoadX509KeyPair(f.cert, f.key)
	}
	if err != nil {
		if now != f.loaded { // log each state once
			slog.Error("changed certificate not readable; the previous one stays in use", "cert", f.cert, "key", f.key, "error", err)
		}
		f.loaded = now
		return f.shown, nil
	}
	f.shown, f.loaded = &next, now
	slog.Info("certificate reloaded", "cert", f.cert, "until", next.Leaf.NotAfter)
	return f.shown, nil
}

// stamp returns the stamp of the files, or zero if they cannot be examined.
func (f *certFiles) stamp() (s certStamp, err error) {
	cert, err := os.Stat(f.cert)
	if err != nil {
		return s, err
	}
	key, err := os.Stat(f.key)
	if err != nil {
		return s, err
	}
	return certStamp{cert.ModTime().UnixNano(), key.ModTime().UnixNano(), cert.Size(), key.Size()}, nil
}
