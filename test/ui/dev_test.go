//go:build ui

package ui

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"github.com/assay-run/assay/internal/testenv"
)

// The link of "assay dev" signs in once. No token and no code stays where a later page, program or
// user can find it.
func TestDevLink(t *testing.T) {
	dev := startDev(t)
	profile := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(*chromium), chromedp.UserDataDir(profile))
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	ctx, closeTab := chromedp.NewContext(all)
	defer closeTab()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	var referrers []string
	chromedp.ListenTarget(ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSentExtraInfo); ok {
			for name, v := range e.Headers {
				if strings.EqualFold(name, "Referer") {
					referrers = append(referrers, fmt.Sprint(v))
				}
			}
		}
	})
	signedIn := chromedp.ActionFunc(func(ctx context.Context) error {
		ctx, stop := context.WithTimeout(ctx, 30*time.Second)
		defer stop()
		for done := false; !done; time.Sleep(50 * time.Millisecond) {
			err := chromedp.Evaluate(`location.pathname === "/ui/" && document.readyState === "complete"`, &done).Do(ctx)
			if ctx.Err() != nil { // other errors: the page is being replaced
				return fmt.Errorf("not signed in: %w", err)
			}
		}
		return nil
	})
	var location, referrer, cookies string
	var length int64
	var entries []*page.NavigationEntry
	if err := chromedp.Run(ctx, network.Enable(), chromedp.Navigate(dev.link), signedIn, chromedp.Location(&location), chromedp.Evaluate(`document.referrer`, &referrer),
		chromedp.Evaluate(`document.cookie`, &cookies), chromedp.Evaluate(`history.length`, &length),
		chromedp.ActionFunc(func(ctx context.Context) (err error) {
			_, entries, err = page.GetNavigationHistory().Do(ctx)
			return err
		})); err != nil {
		t.Fatal(err)
	}
	secret := func(text string) bool { return strings.Contains(text, dev.code) || strings.Contains(text, dev.token) }
	for _, text := range append(referrers, location, referrer, cookies) {
		if secret(text) {
			t.Errorf("the page has what signs in: %q", text)
		}
	}
	if len(referrers) == 0 {
		t.Error("no request had a Referer, so none was looked at")
	}
	for _, e := range entries {
		if secret(e.URL) || secret(e.UserTypedURL) {
			t.Errorf("the history of the tab has %s (%s)", e.URL, e.UserTypedURL)
		}
	}
	browser, stopOther := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(*chromium))...)
	defer stopOther()
	other, closeOther := chromedp.NewContext(browser)
	defer closeOther()
	var again string
	if err := chromedp.Run(other, chromedp.Navigate(dev.link), chromedp.WaitVisible(`[role=alert]`), chromedp.Text("main", &again)); err != nil || !strings.Contains(again, "has been used") {
		t.Errorf("the link signs in again, or does not give the reason: %v, %q", err, again)
	}
	if err := chromedp.Run(other, chromedp.Navigate(dev.url+"/ui/signin#code="+dev.token), chromedp.WaitVisible(`[role=alert]`)); err != nil {
		t.Errorf("a link signs in with a token: %v", err)
	}
	closeOther()
	if err := chromedp.Cancel(ctx); err != nil { // makes the browser write its profile
		t.Fatal(err)
	}
	dev.keptIn(t, profile)
}

// runningDev is a fleet of the command line.
type runningDev struct{ url, link, code, token string }

// startDev starts "assay dev" on a terminal, as a user does.
func startDev(t *testing.T) (d runningDev) {
	t.Helper()
	archive := filepath.Join(testenv.RepoRoot(t), ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	home, screen, terminal := t.TempDir(), (*os.File)(nil), (*os.File)(nil)
	screen, terminal = newTerminal(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, filepath.Join(testenv.Programs(t), "assay"), "dev", "--data", testenv.FleetDir(t, archive), "--listen", testenv.Address(t), "--image-archive", archive)
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+home, "ASSAY_TOKENS=", "ASSAY_TOKEN=", "ASSAY_OIDC_ISSUER=")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stderr = terminal
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = terminal.Close()
	t.Cleanup(func() {
		cancel()
		if err := cmd.Wait(); err != nil && !errors.Is(err, context.Canceled) { // canceled: it ended without an error
			t.Errorf("assay dev: %v", err)
		}
		if left, _ := filepath.Glob(filepath.Join(home, "assay", "tokens", "*")); len(left) > 0 {
			t.Errorf("tokens are left: %v", left)
		}
	})
	said := make(chan string, 1)
	go func() {
		var text strings.Builder
		for s := bufio.NewScanner(screen); s.Scan(); {
			if text.WriteString(s.Text() + "\n"); strings.Contains(s.Text(), "/ui/signin#") {
				said <- s.Text()
				_, _ = io.Copy(io.Discard, screen)
				return
			}
		}
		said <- text.String()
	}()
	ready := bufio.NewScanner(out)
	for d.url == "" && ready.Scan() {
		_, d.url, _ = strings.Cut(ready.Text(), "ready on ")
	}
	line := testenv.Receive(t, "the link", said)
	at := strings.Index(line, "http://")
	if at < 0 || d.url == "" {
		t.Fatalf("assay dev wrote %q", line)
	}
	d.link = strings.TrimSpace(line[at:])
	_, d.code, _ = strings.Cut(d.link, "#code=")
	d.token = d.keptToken(t, home)
	if d.code == "" || d.code == d.token {
		t.Fatalf("the link is %s", d.link)
	}
	return d
}

// keptToken returns the stored token for clients, which only its owner can read.
func (d runningDev) keptToken(t *testing.T, home string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(home, "assay", "tokens", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("tokens are kept in %v, %v", files, err)
	}
	info, err := os.Stat(files[0])
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", files[0], info.Mode(), err)
	}
	raw, err := os.ReadFile(files[0])
	if err != nil || len(bytes.TrimSpace(raw)) < 20 {
		t.Fatalf("%s: %d bytes, %v", files[0], len(raw), err)
	}
	return string(bytes.TrimSpace(raw))
}

// keptIn fails the test for every file of a browser's profile that contains the token. The code may
// be in its history: it is used up.
func (d runningDev) keptIn(t *testing.T, profile string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(profile, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // the browser removes files while it ends
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		if files++; bytes.Contains(raw, []byte(d.token)) {
			t.Errorf("the profile of the browser has the token in %s", strings.TrimPrefix(path, profile))
		}
		if bytes.Contains(raw, []byte(d.code)) {
			t.Logf("the profile of the browser has the used code in %s", strings.TrimPrefix(path, profile))
		}
		return nil
	})
	if err != nil || files < 5 {
		t.Errorf("the profile has %d files, %v", files, err)
	}
}

// newTerminal returns both ends of a pseudo-terminal.
func newTerminal(t *testing.T) (screen, terminal *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return screen, terminal
}
