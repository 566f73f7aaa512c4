package client

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// LocalTokenFile returns the file where "assay dev" stores the token of a local fleet:
// assay/tokens/PORT in the user's configuration directory. It returns "" for remote fleets.
func LocalTokenFile(u *url.URL) string {
	if host := u.Hostname(); host != "localhost" {
		addr, err := netip.ParseAddr(host)
		if err != nil || !addr.Unmap().IsLoopback() {
			return ""
		}
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	dir, err := os.UserConfigDir()
	if err != nil || port == "" {
		return ""
	}
	return filepath.Join(dir, "assay", "tokens", port)
}

// KeepLocalToken writes the token of a fleet with a local address, for clients of the same user.
// The returned function removes it.
func KeepLocalToken(listen, token string) (remove func() error, err error) {
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}
	file := LocalTokenFile(&url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", port)})
	if file == "" {
		return func() error { return nil }, nil // no home directory: the user passes the token, or none is needed
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	fresh, err := os.CreateTemp(filepath.Dir(file), port+"-") // mode 0600
	if err != nil {
		return nil, err
	}
	_, err = io.WriteString(fresh, token+"\n")
	if err = errors.Join(err, fresh.Close()); err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		return nil, errors.Join(err, os.Remove(fresh.Name()))
	}
	return func() error {
		if readToken(file) != token {
			return nil // another fleet uses the port now
		}
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}, nil
}

// localToken returns the stored token of the local fleet at u, or "".
func localToken(u *url.URL) string {
	file := LocalTokenFile(u)
	if file == "" {
		return ""
	}
	return readToken(file)
}

// readToken returns the token in a file that only its owner can read, or "".
func readToken(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, 1024))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}
