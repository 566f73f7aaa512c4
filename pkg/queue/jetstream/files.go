package jetstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/pkg/job"
)

// Files is a directory with a process's credentials for a NATS server and the CA to verify the
// server. Programs take it as a flag with the name in the tag. Certificates and credentials are
// read again at every connection, so they can be renewed in place. The public half of an nkey is
// not: a new one needs a restart.
type Files struct {
	Dir string `name:"nats-dir" env:"ASSAY_NATS_DIR" placeholder:"DIR" help:"Directory with optional credentials for the NATS server. ca.crt: trusted authorities; requires TLS (default: the system's, for tls:// URLs). tls.crt and tls.key: client certificate. user.nk: nkey seed of a user. user.creds: JWT and seed of a user."`
}

// Files that may be in the directory.
const (
	caFile    = "ca.crt"
	certFile  = "tls.crt"
	keyFile   = "tls.key"
	credsFile = "user.creds"
	nkeyFile  = "user.nk"
)

func (f Files) path(name string) string { return filepath.Join(f.Dir, name) }

// has reports whether a file exists. If the check fails it returns true, and the later read reports
// the error.
func (f Files) has(name string) bool {
	if f.Dir == "" {
		return false
	}
	_, err := os.Stat(f.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

// Identified reports whether the files identify the client to the server.
func (f Files) Identified() bool { return f.User() || f.has(certFile) }

// User reports whether the files contain a user of the server.
func (f Files) User() bool { return f.JWT() || f.has(nkeyFile) }

// JWT reports whether the files are for a server with JWT authentication.
func (f Files) JWT() bool { return f.has(credsFile) }

// Check reads each file once. The error wraps job.ErrInvalid, names the flag and the file, and
// reveals no content.
func (f Files) Check() error {
	if f.Dir == "" {
		return nil
	}
	bad := func(what string, err error) error {
		return fmt.Errorf("--nats-dir: %w: %s: %w", job.ErrInvalid, what, err)
	}
	entries, err := os.ReadDir(f.Dir)
	switch {
	case err != nil:
		return bad(f.Dir, err)
	case !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains([]string{caFile, certFile, keyFile, credsFile, nkeyFile}, e.Name())
	}):
		return bad(f.Dir, errors.New("it contains none of ca.crt, tls.crt and tls.key, user.creds, user.nk"))
	case f.has(credsFile) && f.has(nkeyFile):
		return bad(f.Dir, errors.New("both user.creds and user.nk exist; remove one of them"))
	case f.has(certFile) != f.has(keyFile):
		return bad(f.Dir, errors.New("tls.crt needs its tls.key, and tls.key its tls.crt"))
	}
	for _, file := range []struct {
		name string
		read func(string) error
	}{
		{credsFile, checkCreds},
		{nkeyFile, func(path string) error { _, err := readSeed(path); return err }},
		{caFile, checkAuthorities},
		{certFile, func(path string) error { _, err := tls.LoadX509KeyPair(path, f.path(keyFile)); return err }},
	} {
		if !f.has(file.name) {
			continue
		}
		if err := file.read(f.path(file.name)); err != nil {
			return bad(f.path(file.name), err)
		}
	}
	return nil
}

// options returns the client options for the files.
func (f Files) options() (o []nats.Option, err error) {
	if f.has(caFile) {
		o = append(o, nats.RootCAs(f.path(caFile)))
	}
	if f.has(certFile) {
		o = append(o, nats.ClientCert(f.path(certFile), f.path(keyFile)))
	}
	if f.has(credsFile) {
		o = append(o, nats.UserCredentials(f.path(credsFile)))
	}
	if f.has(nkeyFile) {
		seed, err := nats.NkeyOptionFromSeed(f.path(nkeyFile))
		if err != nil {
			return nil, fmt.Errorf("--nats-dir: %w", err)
		}
		o = append(o, seed)
	}
	return o, nil
}

func checkCreds(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	token, err := nkeys.ParseDecoratedJWT(raw)
	if err != nil {
		return fmt.Errorf("it has no JWT of a user")
	}
	user, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return fmt.Errorf("its JWT is not a user's")
	}
	kp, err := nkeys.ParseDecoratedUserNKey(raw)
	if err != nil {
		return fmt.Errorf("it has no seed of a user")
	}
	defer kp.Wipe()
	if public, err := kp.PublicKey(); err != nil || public != user.Subject {
		return fmt.Errorf("its seed does not belong to the user in its JWT")
	}
	return nil
}

// readSeed returns the public half of the nkey in a file.
func readSeed(path string) (public string, err error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	kp, err := nkeys.ParseDecoratedNKey(bytes.TrimSpace(raw))
	if err != nil {
		return "", fmt.Errorf("it has no nkey seed")
	}
	defer kp.Wipe()
	public, err = kp.PublicKey()
	if err != nil || !nkeys.IsValidPublicUserKey(public) {
		return "", fmt.Errorf("its nkey is not a user's, which begins with SU")
	}
	return public, nil
}

func checkAuthorities(path string) error {
	raw, err := os.ReadFile(path)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(raw) {
		return fmt.Errorf("it has no certificate in PEM")
	}
	return err
}
