package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/cli/show"
	"github.com/assay-run/assay/pkg/client"
)

type devCmd struct {
	Data    string   `env:"ASSAY_DATA" placeholder:"DIR" help:"Data directory (default: assay in $$XDG_DATA_HOME or ~/.local/share)."`
	Listen  string   `env:"ASSAY_LISTEN" default:"127.0.0.1:8080" help:"Address of the API; port 0 selects a free port."`
	Archive []string `name:"image-archive" env:"ASSAY_IMAGE_ARCHIVES" placeholder:"FILE" help:"OCI archives to import (default: .cache/images/*.tar beside bin, else an image built from this system's packages)."`
	Runtime string   `env:"ASSAY_RUNTIME" enum:"containerd,noop" default:"containerd" help:"Runtime: containerd, or noop to run nothing and measure the rest."`
	NoToken bool     `name:"insecure-no-token" help:"Accept requests without a token from all users of this machine; needs a loopback --listen."`
	Verbose bool     `short:"v" help:"Copy the logs of all processes to stderr."`
}

// Run runs a fleet until a signal comes.
func (c *devCmd) Run(a *app) error {
	cfg, err := c.config(a)
	if err != nil {
		return err
	}
	token := ""
	if !c.NoToken && os.Getenv("ASSAY_TOKENS") == "" && os.Getenv("ASSAY_OIDC_ISSUER") == "" {
		token = rand.Text()
		cfg.Env = append(cfg.Env, "ASSAY_TOKENS="+dev.OwnTokens(token, os.Getenv))
	}
	f, err := dev.StartFleet(a.ctx, cfg)
	if err != nil {
		return err
	}
	if token != "" {
		forget, err := client.KeepLocalToken(strings.TrimPrefix(f.URL(), "http://"), token)
		if err != nil {
			return errors.Join(fmt.Errorf("keep the token of the fleet: %w", err), stopFleet(f))
		}
		defer func() { _ = forget() }() // remove the token, which is useless without the fleet
		if show.IsTerminal(a.stderr) {
			link, err := signInLink(a.ctx, f.URL(), token)
			if err != nil {
				return errors.Join(err, stopFleet(f))
			}
			fmt.Fprintf(a.stderr, "assay: sign in to the page, once, at %s\n", link)
		}
	}
	a.printf("assay: ready on %s\n", f.URL())
	select {
	case <-a.ctx.Done():
		err = nil
	case err = <-f.Failed():
	}
	return errors.Join(err, stopFleet(f))
}

// signInLink returns an address of the page that signs in once as the holder of a token.
func signInLink(ctx context.Context, url, token string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/ui/signin/code", http.NoBody)
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", fmt.Errorf("make a sign-in link: %w", err)
	}
	defer resp.Body.Close()
	code, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil || resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("make a sign-in link: the fleet answered %s: %s, %w", resp.Status, code, err)
	}
	return url + "/ui/signin#code=" + string(code), nil
}

// stopFleet stops a fleet even if the command's own context has ended.
func stopFleet(f *dev.Fleet) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return f.Stop(ctx)
}

func (c *devCmd) config(a *app) (dev.FleetConfig, error) {
	bin, err := binDir()
	if err != nil {
		return dev.FleetConfig{}, err
	}
	cfg := dev.FleetConfig{
		Dir: c.Data, Listen: c.Listen, BinDir: bin, Runtime: c.Runtime,
		ImageArchives: c.Archive, Verbose: c.Verbose, Stderr: a.stderr, Log: devLog(a.stderr, c.Verbose),
	}
	if err := c.checkNoToken(); err != nil {
		return cfg, err
	}
	if cfg.Dir == "" {
		if cfg.Dir, err = dataDir(); err != nil {
			return cfg, err
		}
	}
	if len(cfg.ImageArchives) == 0 {
		cfg.ImageArchives = defaultArchives(bin)
	}
	for i, file := range cfg.ImageArchives {
		if cfg.ImageArchives[i], err = filepath.Abs(file); err != nil {
			return cfg, err
		}
		if _, err := os.Stat(file); err != nil {
			return cfg, fmt.Errorf("--image-archive: %w", err)
		}
	}
	if len(cfg.ImageArchives) == 0 && c.Runtime == "containerd" {
		if cfg.ImageCache, err = imageCache(); err != nil {
			return cfg, err
		}
	}
	cfg.Env = shareCores()
	if c.NoToken {
		cfg.Env = append(cfg.Env, "ASSAY_TOKENS=", "ASSAY_INSECURE=no-tokens")
	}
	return cfg, nil
}

// shareCores limits every part of a fleet on one machine to half of its cores. Their work takes
// microseconds, and waking a thread on another core costs more. It returns the environment for the
// other parts. The user's environment takes precedence.
func shareCores() []string {
	if os.Getenv("GOMAXPROCS") != "" {
		return nil
	}
	n := max(runtime.GOMAXPROCS(0)/2, 1)
	runtime.GOMAXPROCS(n) // NATS is in this process
	return []string{"GOMAXPROCS=" + strconv.Itoa(n)}
}

// binDir returns the directory of this program and its siblings.
func binDir() (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the other programs: %w", err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", fmt.Errorf("find the other programs: %w", err)
	}
	return filepath.Dir(exe), nil
}

// dataDir returns the default data directory.
func dataDir() (string, error) {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "assay"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no home directory for the data: name one with --data: %w", err)
	}
	return filepath.Join(home, ".local", "share", "assay"), nil
}

// defaultArchives returns the images that `make image` has built in a clone of the repository.
func defaultArchives(bin string) []string {
	found, err := filepath.Glob(filepath.Join(bin, "..", ".cache", "images", "*.tar"))
	if err != nil {
		return nil // only for a bad pattern
	}
	return found
}

// imageCache returns the directory of the default image outside a clone of the repository.
func imageCache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache directory for the default image: set HOME or XDG_CACHE_HOME: %w", err)
	}
	return filepath.Join(cache, "assay"), nil
}

func devLog(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelWarn
	if verbose {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// checkNoToken rejects a fleet without authentication at an address that other machines reach.
func (c *devCmd) checkNoToken() error {
	if !c.NoToken {
		return nil
	}
	host, _, err := net.SplitHostPort(c.Listen)
	if ip := net.ParseIP(host); err != nil || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil // an empty address fails later, with the reason
	}
	return fmt.Errorf("--insecure-no-token: other machines reach %s; listen on 127.0.0.1, or leave the flag out", c.Listen)
}
