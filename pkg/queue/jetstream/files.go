package jetstream

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/assay-run/assay/pkg/job"
)

// Files name what a process shows to a NATS server, and what it believes the server by.
// Programs take them as flags under the names in the tags. Certificates and credentials
// are read again at every new connection, so that they may be renewed in place; the
// public half of an nkey is not, and another one takes a restart.
type Files struct {
	Creds string `name:"nats-creds" env:"ASSAY_NATS_CREDS" placeholder:"FILE" help:"Credentials (a user's JWT and its seed) for a NATS server that is run by JWTs."`
	Nkey  string `name:"nats-nkey" env:"ASSAY_NATS_NKEY" placeholder:"FILE" help:"A user's nkey seed, for a NATS server that knows its public half."`
	CA    string `name:"nats-ca" env:"ASSAY_NATS_CA" placeholder:"FILE" help:"Certificates of the authorities that the NATS server's own must be signed by; with it nothing is said without TLS (default: the system's, where the URL says tls://)."`
	Cert  string `name:"nats-cert" env:"ASSAY_NATS_CERT" placeholder:"FILE" help:"Certificate to show to the NATS server, with --nats-key."`
	Key   string `name:"nats-key" env:"ASSAY_NATS_KEY" placeholder:"FILE" help:"Private key of --nats-cert."`
}

// Identified says whether the server learns from the files who connects.
func (f Files) Identified() bool { return f.Creds != "" || f.Nkey != "" || f.Cert != "" }

// Check reads each of them once. The error wraps job.ErrInvalid, names the flag and shows
// nothing of what is in the file.
func (f Files) Check() error {
	if f.Creds != "" && f.Nkey != "" {
		return fmt.Errorf("--nats-creds, --nats-nkey: %w: a process is one user; give one of them", job.ErrInvalid)
	}
	if (f.Cert == "") != (f.Key == "") {
		return fmt.Errorf("--nats-cert, --nats-key: %w: a certificate needs its key, and a key its certificate", job.ErrInvalid)
	}
	for _, file := range []struct {
		flag, path string
		read       func(string) error
	}{
		{"--nats-creds", f.Creds, checkCreds},
		{"--nats-nkey", f.Nkey, func(path string) error { _, err := readSeed(path); return err }},
		{"--nats-ca", f.CA, checkAuthorities},
		{"--nats-cert", f.Cert, func(path string) error { _, err := tls.LoadX509KeyPair(path, f.Key); return err }},
	} {
		if file.path == "" {
			continue
		}
		if err := file.read(file.path); err != nil {
			return fmt.Errorf("%s: %w: %s: %w", file.flag, job.ErrInvalid, file.path, err)
		}
	}
	return nil
}

// options are how the client uses them.
func (f Files) options() (o []nats.Option, err error) {
	if f.CA != "" {
		o = append(o, nats.RootCAs(f.CA))
	}
	if f.Cert != "" {
		o = append(o, nats.ClientCert(f.Cert, f.Key))
	}
	if f.Creds != "" {
		o = append(o, nats.UserCredentials(f.Creds))
	}
	if f.Nkey != "" {
		seed, err := nats.NkeyOptionFromSeed(f.Nkey)
		if err != nil {
			return nil, fmt.Errorf("--nats-nkey: %w", err)
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
		return fmt.Errorf("its JWT is not that of a user")
	}
	kp, err := nkeys.ParseDecoratedUserNKey(raw)
	if err != nil {
		return fmt.Errorf("it has no seed of a user")
	}
	defer kp.Wipe()
	if public, err := kp.PublicKey(); err != nil || public != user.Subject {
		return fmt.Errorf("its seed is not that of the user in its JWT")
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
		return "", fmt.Errorf("its nkey is not that of a user: it begins with SU")
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
