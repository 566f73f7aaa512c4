package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeCert creates a self-signed certificate of a name, and returns a pool that trusts it.
func writeCert(t *testing.T, dir, name string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, filepath.Join(dir, "tls.crt"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	putFile(t, filepath.Join(dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	pool := x509.NewCertPool()
	own, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool.AddCert(own)
	return pool
}

func putFile(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRenewal checks that a renewed certificate is used without a restart. If it cannot be read, the previous one
// stays in use.
func TestRenewal(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := openCert(cert, key); err == nil {
		t.Error("files that are not there are taken")
	}
	first := writeCert(t, dir, "first")
	f, err := openCert(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	f.look = 0 // check the files for each connection
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{TLSConfig: f.Config(), Handler: http.NotFoundHandler(), ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = srv.ServeTLS(l, "", "") }()
	defer srv.Close()
	shown := func(pool *x509.CertPool, most uint16) (string, error) {
		c := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MaxVersion: most}, ForceAttemptHTTP2: true}}
		defer c.CloseIdleConnections()
		resp, err := c.Get("https://" + l.Addr().String())
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		return resp.Proto + " " + resp.TLS.PeerCertificates[0].Subject.CommonName, nil
	}
	if got, err := shown(first, 0); err != nil || got != "HTTP/2.0 first" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := shown(first, tls.VersionTLS11); err == nil {
		t.Errorf("TLS 1.1 is spoken: %q", got)
	}
	second := writeCert(t, dir, "second")
	if got, err := shown(second, 0); err != nil || got != "HTTP/2.0 second" {
		t.Errorf("after a renewal: %q, %v", got, err)
	}
	putFile(t, key, []byte("no key"))
	if got, err := shown(second, 0); err != nil || got != "HTTP/2.0 second" {
		t.Errorf("with a key that is none: %q, %v", got, err)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if got, err := shown(second, 0); err != nil || got != "HTTP/2.0 second" {
		t.Errorf("without a certificate: %q, %v", got, err)
	}
	third := writeCert(t, dir, "third")
	if got, err := shown(third, 0); err != nil || got != "HTTP/2.0 third" {
		t.Errorf("when there is one again: %q, %v", got, err)
	}
	if _, err := openCert(cert, cert); err == nil {
		t.Error("a certificate is taken for its key")
	}
}
