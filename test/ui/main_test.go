//go:build ui

package ui

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/assay-run/assay/internal/cli/dev"
	"github.com/assay-run/assay/internal/dispatcher/identity/oidc/oidctest"
	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
)

var (
	chromium = flag.String("ui.chromium", "/usr/bin/chromium", "the browser")
	axe      = flag.String("ui.axe", "", "axe.min.js, of the package axe-core")
	shots    = flag.String("ui.shots", "", "directory that gets a picture of every page; empty: none")
	pictures = flag.String("ui.pictures", "", "directory that gets the pictures of the documentation; empty: none")
)

func TestMain(m *testing.M) { testenv.Main(m) }

// The keys of the fleet.
const (
	operatorKey  = "ui-operator"
	submitterKey = "ui-submitter"
	otherKey     = "ui-other"
	keys         = operatorKey + "=default:admin," + submitterKey + "=default," + otherKey + "=other"
)

// fleet is a real fleet, and a browser.
type fleet struct {
	t   *testing.T
	api *client.Client
	url string
	all context.Context // of the browser

	issuer *oidctest.Issuer
}

func start(t *testing.T) *fleet {
	t.Helper()
	root := testenv.RepoRoot(t)
	archive := filepath.Join(root, ".cache", "images", "python.tar")
	if _, err := os.Stat(archive); err != nil {
		t.Fatalf("the default image is not built: %v; run: make image", err)
	}
	issuer, listen := oidctest.Start(), testenv.Address(t)
	t.Cleanup(issuer.Close)
	running, err := dev.StartFleet(t.Context(), dev.FleetConfig{
		Dir: testenv.FleetDir(t, archive), Listen: listen, BinDir: testenv.Programs(t), ImageArchives: []string{archive},
		Env: []string{"ASSAY_OIDC_ISSUER=" + issuer.URL, "ASSAY_OIDC_AUDIENCE=assay", "ASSAY_OIDC_CLIENT_ID=assay-page", "ASSAY_OIDC_GROUPS=lookers=default:reader",
			"ASSAY_PUBLIC_URL=http://" + listen, "ASSAY_TOKENS=" + keys, "ASSAY_CPU=4", "ASSAY_IMAGE_REGISTRIES=http://127.0.0.1:1"},
		Stderr: t.Output(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	f := &fleet{t: t, url: running.URL(), issuer: issuer}
	if f.api, err = client.New(f.url, client.WithToken(submitterKey)); err != nil {
		t.Fatal(err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(*chromium), chromedp.WindowSize(1280, 900),
		chromedp.Flag("force-color-profile", "srgb"))
	all, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	f.all = all
	return f
}

// tab is a page of the browser, and its errors.
type tab struct {
	t   *testing.T
	f   *fleet
	ctx context.Context

	mu      sync.Mutex
	wrong   []string // scripts that failed, policies that were violated, dialogs
	strange []string // requested addresses outside of the fleet
}

// tab opens a page, in a browser of its own. Any error on it fails the test.
func (f *fleet) tab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(f.all)
	t.Cleanup(cancel)
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	t.Cleanup(stop)
	b := &tab{t: t, f: f, ctx: ctx}
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as this context
		t.Fatalf("%s: %v; run: scripts/setup browser", *chromium, err)
	}
	chromedp.ListenTarget(ctx, b.hear)
	b.run(network.Enable(), cdplog.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`window.executed = 0; window.canary = () => { window.executed++; };`).Do(ctx)
		return err
	}))
	t.Cleanup(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, what := range b.wrong {
			t.Errorf("on a page: %s", what)
		}
		for _, what := range b.strange {
			t.Errorf("asked for: %s", what)
		}
	})
	return b
}

func (b *tab) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, e.ExceptionDetails.Error())
	case *cdplog.EventEntryAdded:
		if e.Entry.Level == cdplog.LevelError && !strings.Contains(e.Entry.Text, "status of 4") {
			b.wrong = append(b.wrong, fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	case *page.EventJavascriptDialogOpening:
		b.wrong = append(b.wrong, "a dialog: "+e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(true)) }() // the page waits for it
	case *network.EventRequestWillBeSent:
		if u := e.Request.URL; !strings.HasPrefix(u, b.f.url+"/") && !strings.HasPrefix(u, "data:image/png;") && !strings.HasPrefix(u, b.f.issuer.URL+"/authorize?") && u != "about:blank" {
			b.strange = append(b.strange, fmt.Sprintf("%.200s", u))
		}
	}
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		var where string
		_ = chromedp.Run(b.ctx, chromedp.Location(&where)) // for the message
		b.t.Fatalf("at %s: %v\n%s", where, err, b.text())
	}
}

// text returns the text of a page, for messages.
func (b *tab) text() (s string) {
	_ = chromedp.Run(b.ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 3000)`, &s))
	return s
}

func (b *tab) open(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.f.url+path), chromedp.WaitReady("main"))
}

func eval[T any](b *tab, script string) (v T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(script, &v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
	return v
}

// until waits until a script yields true.
func (b *tab) until(what, script string) {
	b.t.Helper()
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		var ok bool
		if err := chromedp.Run(b.ctx, chromedp.Evaluate(script, &ok)); err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			b.t.Fatalf("not within 40 s: %s\n%s", what, b.text())
		}
	}
}

// says waits until a page has some words.
func (b *tab) says(words string) {
	b.t.Helper()
	quoted, _ := json.Marshal(words) // text always marshals
	b.until("it says "+words, `document.querySelector("main") !== null && document.querySelector("main").innerText.includes(`+string(quoted)+`)`)
}

// signIn signs in through the page.
func (b *tab) signIn(key string) {
	b.t.Helper()
	b.open("/ui/signin")
	b.run(chromedp.SendKeys("#key", key+"\r"))
	b.until("signed in", `location.pathname === "/ui/"`)
}

// press clicks on the button or link with this text, and waits for the page to which it leads.
func (b *tab) press(text string) {
	b.t.Helper()
	quoted, _ := json.Marshal(text)
	b.until("there is "+text, `(() => { const e = [...document.querySelectorAll("main a, main button, header button")].find((e) => e.innerText.trim() === `+string(quoted)+`); if (!e) return false; window.pressed = true; e.click(); return true; })()`)
	b.until(text+" leads somewhere", `window.pressed === undefined && document.querySelector("main") !== null && document.readyState === "complete"`)
}

func q(s string) string { return url.QueryEscape(s) }
