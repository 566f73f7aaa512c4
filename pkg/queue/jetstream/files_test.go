package jetstream_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/jetstream"
)

// authority signs certificates of servers and clients on 127.0.0.1.
type authority struct {
	t    *testing.T
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	ca   string // file
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.ca, _ = a.issue("ca")
	return a
}

// issue returns the files of a certificate and its key. The first is the authority's own.
func (a *authority) issue(name string) (cert, key string) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		c.IsCA, c.BasicConstraintsValid, c.KeyUsage = true, true, x509.KeyUsageCertSign
		parent, signer = c, private
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, private.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	if a.cert == nil {
		a.key = private
		if a.cert, err = x509.ParseCertificate(der); err != nil {
			a.t.Fatal(err)
		}
	}
	raw, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return a.file(name+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		a.file(name+".key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: raw}))
}

func (a *authority) file(name string, content []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// user returns a user's key and the file of its seed.
func (a *authority) user(name string) (kp nkeys.KeyPair, seedFile string) {
	a.t.Helper()
	kp, err := nkeys.CreateUser()
	if err != nil {
		a.t.Fatal(err)
	}
	seed, err := kp.Seed()
	if err != nil {
		a.t.Fatal(err)
	}
	return kp, a.file(name, append(seed, '\n'))
}

// serve runs a server.
func (a *authority) serve(o *natsd.Options) *natsd.Server {
	a.t.Helper()
	o.Host, o.JetStream, o.StoreDir, o.NoSigs, o.NoLog = "127.0.0.1", true, filepath.Join(a.dir, "js"), true, true
	if o.Port == 0 {
		o.Port = natsd.RANDOM_PORT
	}
	s, err := natsd.NewServer(o)
	if err != nil {
		a.t.Fatal(err)
	}
	s.Start()
	a.t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(30 * time.Second) {
		a.t.Fatal("the server does not start")
	}
	return s
}

// refused reports an error unless the server keeps who comes with f out.
func refused(t *testing.T, what, url string, f jetstream.Files) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if q, err := jetstream.Connect(ctx, jetstream.Config{URL: url, Files: f}); err == nil {
		q.Close()
		t.Errorf("%s: was let in", what)
	} else if !errors.Is(err, job.ErrUnavailable) {
		t.Errorf("%s: %v, want unavailable", what, err)
	}
}

// together puts files into one directory, under the names that they are known by there.
func together(t *testing.T, files map[string]string) jetstream.Files {
	t.Helper()
	dir := t.TempDir()
	for name, file := range files {
		if file == "" {
			continue
		}
		if err := os.Symlink(file, filepath.Join(dir, name)); err != nil { // as a secret is mounted
			t.Fatal(err)
		}
	}
	return jetstream.Files{Dir: dir}
}

// TestFilesTLSAndNkey: a server that speaks TLS only, wants a certificate and knows one
// user by its nkey.
func TestFilesTLSAndNkey(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "NATS")
	a := newAuthority(t)
	cert, key := a.issue("server")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	kp, seed := a.user("dispatcher.nk")
	public, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	s := a.serve(&natsd.Options{
		TLSConfig:  &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12},
		TLSVerify:  true,
		TLSTimeout: 30,
		Nkeys:      []*natsd.NkeyUser{{Nkey: public}},
	})
	mine, mineKey := a.issue("client")
	files := map[string]string{"user.nk": seed, "ca.crt": a.ca, "tls.crt": mine, "tls.key": mineKey}
	all := together(t, files)
	if err := all.Check(); err != nil {
		t.Fatal(err)
	}
	q := connect(t, jetstream.Config{URL: s.ClientURL(), Files: all})
	if err := q.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	other := newAuthority(t)
	theirs, theirsKey := other.issue("client")
	_, stranger := a.user("stranger.nk")
	for what, change := range map[string]map[string]string{
		"no certificate":            {"tls.crt": "", "tls.key": ""},
		"a stranger's certificate":  {"tls.crt": theirs, "tls.key": theirsKey},
		"a server of nobody's":      {"ca.crt": ""},
		"a server of another's":     {"ca.crt": other.ca},
		"no nkey":                   {"user.nk": ""},
		"an nkey that nobody knows": {"user.nk": stranger},
	} {
		f := maps.Clone(files)
		maps.Copy(f, change)
		refused(t, what, s.ClientURL(), together(t, f))
	}
}

// TestFilesCreds checks a server that uses JWTs. Credentials that are renewed in place serve the next
// connection.
func TestFilesCreds(t *testing.T) {
	t.Parallel()
	testenv.Needs(t, "NATS")
	a := newAuthority(t)
	operator, operatorKey := keyOf(t, nkeys.CreateOperator)
	account, accountKey := keyOf(t, nkeys.CreateAccount)
	system, _ := keyOf(t, nkeys.CreateAccount)
	oc := jwt.NewOperatorClaims(operatorKey)
	oc.SystemAccount = publicOfPair(t, system)
	own := jwt.NewAccountClaims(accountKey)
	own.Limits.JetStreamLimits = jwt.JetStreamLimits{MemoryStorage: -1, DiskStorage: -1, Streams: -1, Consumer: -1}
	sign := func(c jwt.Claims, by nkeys.KeyPair) string {
		t.Helper()
		text, err := c.Encode(by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	trusted, err := jwt.DecodeOperatorClaims(sign(oc, operator))
	if err != nil {
		t.Fatal(err)
	}
	resolver := &natsd.MemAccResolver{}
	for public, text := range map[string]string{accountKey: sign(own, operator), oc.SystemAccount: sign(jwt.NewAccountClaims(oc.SystemAccount), operator)} {
		if err := resolver.Store(public, text); err != nil {
			t.Fatal(err)
		}
	}
	options := natsd.Options{TrustedOperators: []*jwt.OperatorClaims{trusted}, AccountResolver: resolver, SystemAccount: oc.SystemAccount}
	creds := func(file, name string) (path, public string) {
		t.Helper()
		kp, _ := a.user(name + ".nk")
		public = publicOfPair(t, kp)
		u := jwt.NewUserClaims(public)
		seed, err := kp.Seed()
		if err != nil {
			t.Fatal(err)
		}
		text, err := jwt.FormatUserConfig(sign(u, account), seed)
		if err != nil {
			t.Fatal(err)
		}
		return a.file(file, text), public
	}
	first := options
	s := a.serve(&first)
	file, _ := creds("fleet.creds", "before")
	f := together(t, map[string]string{"user.creds": file})
	if err := f.Check(); err != nil {
		t.Fatal(err)
	}
	q := connect(t, jetstream.Config{URL: s.ClientURL(), Files: f})
	refused(t, "nobody", s.ClientURL(), jetstream.Files{})

	_, renewed := creds("fleet.creds", "after")
	second := options
	second.Port = s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	s = a.serve(&second)
	for deadline := time.Now().Add(60 * time.Second); q.Ping(t.Context()) != nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come back")
		}
	}
	z, err := s.Connz(&natsd.ConnzOptions{Username: true})
	if err != nil || len(z.Conns) != 1 {
		t.Fatal(z, err)
	}
	if user := z.Conns[0].AuthorizedUser; user != renewed {
		t.Errorf("came back as %q, want the user whose credentials are in the file now, %s", user, renewed)
	}
}

func keyOf(t *testing.T, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, string) {
	t.Helper()
	kp, err := create()
	if err != nil {
		t.Fatal(err)
	}
	return kp, publicOfPair(t, kp)
}

func publicOfPair(t *testing.T, kp nkeys.KeyPair) string {
	t.Helper()
	public, err := kp.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	return public
}

// TestFilesAreChecked checks that errors in a file name its flag, its path and the problem, and none of its
// content.
func TestFilesAreChecked(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue("client")
	_, otherKey := a.issue("other")
	_, seed := a.user("user.nk")
	noise := a.file("noise", []byte("SECRET-NOISE"))
	account, err := nkeys.CreateAccount()
	if err != nil {
		t.Fatal(err)
	}
	accountSeed, err := account.Seed()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		files map[string]string
		says  []string
	}{
		{nil, []string{"none of ca.crt"}},
		{map[string]string{"nats-ca": a.ca}, []string{"none of ca.crt"}},
		{map[string]string{"user.creds": noise, "user.nk": seed}, []string{"both user.creds and user.nk"}},
		{map[string]string{"tls.crt": cert}, []string{"needs its tls.key"}},
		{map[string]string{"tls.key": key}, []string{"its tls.crt"}},
		{map[string]string{"tls.crt": cert, "tls.key": otherKey}, []string{"/tls.crt"}},
		{map[string]string{"ca.crt": noise}, []string{"/ca.crt", "no certificate in PEM"}},
		{map[string]string{"user.creds": noise}, []string{"/user.creds", "its JWT is not a user's"}},
		{map[string]string{"user.nk": noise}, []string{"/user.nk", "no nkey seed"}},
		{map[string]string{"user.nk": a.file("account.nk", accountSeed)}, []string{"/user.nk", "not a user's"}},
	} {
		f := together(t, c.files)
		err := f.Check()
		if !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%+v: %v, want an invalid one", c.files, err)
			continue
		}
		for _, want := range append(c.says, "--nats-dir", f.Dir) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), string(accountSeed)) {
			t.Errorf("%q shows what is in the file", err)
		}
	}
	if err := (jetstream.Files{Dir: "/nowhere"}).Check(); !errors.Is(err, job.ErrInvalid) || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("no directory: %v", err)
	}
}
