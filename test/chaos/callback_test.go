package chaos

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/job"
)

const hookKey = "a secret of the receiver's and ours"

// receiver receives the callback of a batch. It is down until it is started, and then answers as
// configured.
type receiver struct {
	t      *testing.T
	at     string
	server *http.Server

	mu     sync.Mutex
	seen   []string // "id body" of each correctly signed call
	bad    int
	answer func(n int, r *http.Request) int
}

func (r *receiver) start() {
	r.t.Helper()
	l, err := net.Listen("tcp", r.at)
	if err != nil {
		r.t.Fatal(err)
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = r.server.Serve(l) }()
	r.t.Cleanup(func() { _ = r.server.Close(); <-ended })
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, rq *http.Request) {
	body, _ := io.ReadAll(rq.Body)
	id := rq.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, []byte(hookKey))
	mac.Write([]byte(id + "." + rq.Header.Get("webhook-timestamp") + "." + string(body)))
	r.mu.Lock()
	if rq.Header.Get("webhook-signature") != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		r.bad++
	}
	r.seen = append(r.seen, id+" "+string(body))
	n := len(r.seen)
	r.mu.Unlock()
	w.WriteHeader(r.answer(n, rq))
}

func (r *receiver) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.seen...)
}

// due makes every callback due, as if its pause, or the lease of its sender, were over.
func (f *fleet) due() { f.exec("UPDATE callbacks SET next_at = now()") }

func (f *fleet) delivery(batch job.ID) job.Delivery {
	f.t.Helper()
	b, err := f.api.Batch(f.t.Context(), batch, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	return *b.Callback
}

// A batch of ten thousand with poison in it, whose receiver is down when it ends. Then the receiver
// fails, then the dispatcher is killed in the middle of a try. The delivery keeps its id, and is
// made once it can be.
func poisonedBatch(t *testing.T) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	f := newFleet(t, shape{workers: 2, slots: 64, env: []string{"ASSAY_SECRETS_KEY=" + key, "ASSAY_EGRESS_PRIVATE=127.0.0.1:*"}})
	hung := make(chan struct{}, 16)
	r := &receiver{t: t, at: testenv.Address(t)}
	r.answer = func(n int, rq *http.Request) int {
		switch n {
		case 1:
			return http.StatusInternalServerError
		case 2:
			hung <- struct{}{}
			<-rq.Context().Done() // until its sender is dead
		}
		return http.StatusNoContent
	}
	if err := f.api.PutSecret(t.Context(), "hook", hookKey); err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	var lines strings.Builder
	for i := range n {
		script := ""
		if i%100 == 0 {
			script = "exit=1"
		}
		if err := json.NewEncoder(&lines).Encode(scripted(script)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := f.api.SubmitBatch(t.Context(), client.BatchOptions{Callback: &job.Callback{URL: "http://" + r.at + "/done", SecretRef: "hook"}},
		strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	f.check()
	if b, err = f.api.Batch(t.Context(), b.ID, 0); err != nil || b.Counts[job.Finished] != n || b.Outcomes[job.Failed] != n/100 || b.Outcomes[job.Succeeded] != n-n/100 {
		t.Errorf("%+v, %v", b, err)
	}

	eventually(t, "the receiver is found to be down", func() bool { return f.delivery(b.ID).LastError == "connection refused" })
	r.start()
	f.due()
	eventually(t, "the receiver fails", func() bool { return f.delivery(b.ID).LastError == "answered 500" })
	f.due()
	<-hung
	f.dispatchers[0].kill()
	f.dispatchers[0].start(t)
	f.due()
	eventually(t, "the callback is delivered", func() bool { d := f.delivery(b.ID); return !d.DeliveredAt.IsZero() })
	calls := r.calls()
	for _, c := range calls {
		if c != calls[0] {
			t.Errorf("one try says %.200s, another %.200s", calls[0], c)
		}
	}
	id, body, _ := strings.Cut(calls[0], " ")
	var said struct{ Batch job.Batch }
	if err := json.Unmarshal([]byte(body), &said); err != nil || said.Batch.ID != b.ID || said.Batch.Outcomes[job.Failed] != n/100 || id != f.delivery(b.ID).ID {
		t.Errorf("said %.300s, %v", calls[0], err)
	}
	if len(calls) != 3 || r.bad != 0 {
		t.Errorf("%d calls, of which %d were not signed right; want 3", len(calls), r.bad)
	}
}
