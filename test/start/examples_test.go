package start

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

// TestExamples runs each program of examples over one fleet, as in its README, and compares the
// output.
func TestExamples(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), pageTime)
	defer cancel()
	x := examples{ctx: ctx, root: testenv.RepoRoot(t), bin: t.TempDir(), url: fleet(t)}
	build := exec.CommandContext(ctx, "go", "build", "-o", x.bin, "./examples/sessioncallbacks", "./examples/forksearch")
	build.Dir = x.root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Run("sessioncallbacks", x.sessionCallbacks)
	t.Run("forksearch", x.forkSearch)
	t.Run("egress", x.egress)
	t.Run("callbackreceiver", x.callbackReceiver)
}

type examples struct {
	ctx       context.Context
	root, bin string
	url       string
}

// prints runs a program and compares its output, like the output of pages.
func (x examples) prints(t *testing.T, want string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(x.ctx, name, args...)
	cmd.Dir = x.root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if diff := differs(string(out), want); diff != "" {
		t.Errorf("want\n%s\ngot\n%s\n%s", want, out, diff)
	}
}

func (x examples) sessionCallbacks(t *testing.T) {
	x.prints(t, `
succeeded after 3 calls: ['3 words', '2 words', '1 words']
exception after 1 calls: CallError: …the limit of 3 calls…
`, filepath.Join(x.bin, "sessioncallbacks"), x.url)
}

func (x examples) forkSearch(t *testing.T) {
	x.prints(t, `
step 1: 46 away
step 2: 42 away
step 3: 34 away
step 4: 18 away
step 5: 6 away
step 6: 3 away
step 7: 0 away
found with 57 forks: n += 3; n *= 2; n += 3; n *= 2; n *= 2; n += 3; n += 3
`, filepath.Join(x.bin, "forksearch"), x.url)
	api := x.client(t)
	if live, err := api.Sessions(x.ctx, true); err != nil || len(live) != 0 {
		t.Errorf("%d sessions are left, %v", len(live), err)
	}
}

func (x examples) egress(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	defer host.Close()
	x.prints(t, `
outcome: succeeded
`+host.URL+` 200
http://example.org 403
allowed: `+host.Listener.Addr().String()+`
refused: example.org:80 …not on the allow-list…
`, "python3", "examples/egress/egress.py", x.url, host.URL, "http://example.org")
}

func (x examples) callbackReceiver(t *testing.T) {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	at := testenv.Address(t)
	_, port, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	var out testenv.Buffer
	receiver := exec.CommandContext(x.ctx, "python3", "examples/callbackreceiver/receiver.py", port)
	receiver.Dir, receiver.Stdout, receiver.Stderr = x.root, &out, &out
	receiver.Env = append(os.Environ(), "CALLBACK_SECRET="+secret)
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = receiver.Process.Kill(); _ = receiver.Wait() }()
	prints(t, &out, "listening on http://"+at+"\n")

	api := x.client(t)
	for name, value := range map[string]string{"right": secret, "wrong": strings.ToLower(secret[:30]) + "7Sg="} {
		if err := api.PutSecret(x.ctx, name, value); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(name, secret string) {
		t.Helper()
		callback := &job.Callback{URL: "http://" + at + "/", SecretRef: secret}
		_, err := api.SubmitBatch(x.ctx, client.BatchOptions{Name: name, Callback: callback}, strings.NewReader(`{"program": {"python": {"code": "1"}}}`))
		if err != nil {
			t.Fatal(err)
		}
	}
	submit("mine", "right")
	prints(t, &out, "done: mine {\"succeeded\": 1}\n")
	submit("forged", "wrong")
	prints(t, &out, "refused: it is not signed with this secret\n")
	if strings.Contains(out.String(), "done: forged") {
		t.Errorf("it believed %s", out.String())
	}
}

func (x examples) client(t *testing.T) *client.Client {
	t.Helper()
	api, err := client.New(x.url)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// prints waits until a process has printed a line.
func prints(t *testing.T, out *testenv.Buffer, line string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(out.String(), line); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not print %q within a minute; it printed %q", line, out.String())
		}
	}
}
