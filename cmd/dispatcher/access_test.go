package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/identity/oidc/oidctest"
	"github.com/assay-run/assay/internal/testenv"
)

func TestAccessIsChecked(t *testing.T) {
	issuer := "--oidc-issuer=https://id.example.com "
	whole := issuer + "--oidc-audience=assay --oidc-groups=g=a "
	for args, says := range map[string]string{
		whole: "", whole + "--oidc-client-id=page --public-url=https://assay.example.com": "",
		"--tls-cert=x":      "--tls-key",
		"--oidc-groups=g=a": "--oidc-issuer",
		issuer:              "--oidc-groups",
		issuer + "--oidc-groups=g=a:owner --oidc-audience=assay":                      "--oidc-groups",
		issuer + "--oidc-groups=g=a":                                                  "--oidc-audience",
		"--oidc-issuer=http://id.example.com --oidc-groups=g=a --oidc-audience=assay": "--oidc-issuer",
		whole + "--oidc-client-id=page":                                               "--public-url",
	} {
		_, err := parse(append(strings.Fields(args), "--database-url=x"), io.Discard)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v, want an error that names %q", args, err, says)
		}
	}
}

// A dispatcher that is told of an issuer and a certificate lets in, over TLS and HTTP/2, whom the issuer vouches for and
// who has a token, and nobody else.
func TestJWTsOverTLS(t *testing.T) {
	issuer := oidctest.Start()
	defer issuer.Close()
	dir := t.TempDir()
	pool := certificate(t, dir)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	d := start(ctx, t, []string{
		"--listen=127.0.0.1:0", "--database-url=" + testenv.Postgres(t), "--nats-url=" + testenv.NATS(t), "--objects-url=file://" + filepath.Join(dir, "objects"),
		"--tls-cert=" + filepath.Join(dir, "tls.crt"), "--tls-key=" + filepath.Join(dir, "tls.key"), "--tokens=of-a=a",
		"--oidc-issuer=" + issuer.URL, "--oidc-audience=assay", "--oidc-groups=team-b=b,ops=ops:operator",
	})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	for name, c := range map[string]struct {
		token string
		path  string
		want  int
	}{
		"nobody":            {"", "/v1/jobs", http.StatusUnauthorized},
		"a token":           {"of-a", "/v1/jobs", http.StatusOK},
		"another":           {"of-c", "/v1/jobs", http.StatusUnauthorized},
		"a member":          {issuer.Sign(map[string]any{"groups": "team-b"}), "/v1/jobs", http.StatusOK},
		"who acts":          {issuer.Sign(map[string]any{"groups": "team-b"}), "/v1/admin/actions", http.StatusForbidden},
		"an operator":       {issuer.Sign(map[string]any{"groups": "ops"}), "/v1/admin/actions", http.StatusOK},
		"a member of none":  {issuer.Sign(nil), "/v1/jobs", http.StatusForbidden},
		"for other servers": {issuer.Sign(map[string]any{"groups": "ops", "aud": "wiki"}), "/v1/jobs", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+d.addr+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != c.want || resp.ProtoMajor != 2 {
			t.Errorf("%s: %s %d %.300s, want %d", name, resp.Proto, resp.StatusCode, body, c.want)
		}
	}
	stop()
	if err := d.ended(); err != nil {
		t.Error(err)
	}
}

// certificate writes one that is good for this machine, and returns what trusts it.
func certificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	srv := httptest.NewTLSServer(http.NotFoundHandler()) // it has one
	defer srv.Close()
	own := srv.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: own.Certificate[0]}, "tls.key": {Type: "PRIVATE KEY", Bytes: key}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(srv.Certificate())
	return pool
}
