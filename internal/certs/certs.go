// Package certs is a certificate and its key in files, which are read again when they change.
package certs

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// look is how long what was seen of the files is good for.
const look = time.Second

// Files is a certificate that servers show.
type Files struct {
	cert, key string
	look      time.Duration

	mu     sync.Mutex
	shown  *tls.Certificate
	looked time.Time
	loaded stamp // of what is shown, or could not be
}

// stamp tells two states of the files apart.
type stamp struct{ certAt, keyAt, certSize, keySize int64 }

// Open reads them.
func Open(cert, key string) (*Files, error) {
	f := &Files{cert: cert, key: key, look: look}
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

// Config is that of a server. Browsers and programs of the last ten years speak TLS 1.2.
func (f *Files) Config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.certificate, NextProtos: []string{"h2", "http/1.1"}}
}

// certificate returns what is in the files now. While that cannot be read, as between the writing of the one and the other,
// it is what was there before.
func (f *Files) certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
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
		if now != f.loaded { // said once, of each state
			slog.Error("the certificate has changed and cannot be read: the one before is shown on", "cert", f.cert, "key", f.key, "error", err)
		}
		f.loaded = now
		return f.shown, nil
	}
	f.shown, f.loaded = &next, now
	slog.Info("the certificate has changed", "cert", f.cert, "until", next.Leaf.NotAfter)
	return f.shown, nil
}

// stamp looks at the files; of those that cannot be looked at it is zero.
func (f *Files) stamp() (s stamp, err error) {
	cert, err := os.Stat(f.cert)
	if err != nil {
		return s, err
	}
	key, err := os.Stat(f.key)
	if err != nil {
		return s, err
	}
	return stamp{cert.ModTime().UnixNano(), key.ModTime().UnixNano(), cert.Size(), key.Size()}, nil
}
