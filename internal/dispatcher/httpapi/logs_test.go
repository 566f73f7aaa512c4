package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/assay-run/assay/pkg/client"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/object"
	"github.com/assay-run/assay/pkg/store"
)

// writer is a connection to a worker whose job writes text of the test.
type writer struct {
	holders
	mu    sync.Mutex
	lease job.Lease
	out   []byte
	kept  int64 // earlier output is not kept
	blind bool
	asked int
}

func (w *writer) write(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out = append(w.out, s...)
}

func (w *writer) CallSession(_ context.Context, _ string, c control.SessionCall) (control.SessionReply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.Op != control.SessionTail {
		return control.SessionReply{}, errors.New("not asked for")
	}
	w.asked++
	if w.lease == 0 {
		return control.SessionReply{}, job.ErrNotFound
	}
	from := max(c.Tail.Stdout, w.kept)
	if c.Tail.Lease != w.lease {
		from = w.kept
	}
	data := w.out[min(from, int64(len(w.out))):]
	return control.SessionReply{Data: data, Tail: &control.Tail{Lease: w.lease, Begun: true, Blind: w.blind, Stdout: control.Written{At: from, Bytes: len(data)}}}, nil
}

// runsByHand submits a job that the test's worker runs, and returns a function that ends it.
func (f *fleet) runsByHand(w *writer) (id job.ID, end func(stdout string)) {
	f.t.Helper()
	ctx := f.t.Context()
	nj := store.NewJob{ID: job.NewID(), Tenant: "default", Pool: "where no worker looks", Spec: []byte(python("x"))}
	_, d, err := f.store.SubmitJob(ctx, nj, store.Idempotency{}, 100)
	if err != nil || d == nil {
		f.t.Fatal(d, err)
	}
	cs, err := f.store.Claim(ctx, time.Minute, []store.Claim{{Ref: d.Ref, Worker: "byhand"}})
	if err != nil {
		f.t.Fatal(err)
	}
	w.lease = cs[0].Lease
	return nj.ID, func(stdout string) {
		raw := fmt.Sprintf(`{"outcome": "succeeded", "state": "finished", "stdout": {"text": %q, "bytes": %d}, "stderr": {"text": "", "bytes": 0}}`, stdout, len(stdout))
		fin := store.Finish{LeaseRef: store.LeaseRef{Job: nj.ID, Lease: cs[0].Lease}, Worker: "byhand", Outcome: job.Succeeded, Result: []byte(raw)}
		if got, err := f.store.Finish(ctx, []store.Finish{fin}); err != nil || got[0] != store.Recorded {
			f.t.Errorf("%v, %v", got, err)
		}
	}
}

func TestLogsWhileAJobRuns(t *testing.T) {
	t.Parallel()
	w := &writer{}
	f := newFleet(t, func(c *parts) { c.Line = w })
	id, end := f.runsByHand(w)
	w.write("one é")
	var got strings.Builder
	var kinds []string
	missed, live := int64(0), false
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	plain, err := client.New(f.url) // the fleet's client reads whole responses
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range plain.Logs(ctx, id) {
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Kind)
		missed += e.Missed
		live = live || e.Live
		got.Write(e.Bytes())
		switch got.String() {
		case "one é":
			w.write("two\xc3") // half of a character waits for the rest
		case "one étwo":
			w.write("\xa9\xff<script>")
		case "one étwoé\xff<script>":
			w.mu.Lock()
			w.out, w.kept = append(w.out, "lost and found"...), int64(len(w.out)+len("lost and "))
			w.mu.Unlock()
		case "one étwoé\xff<script>found":
			end("one étwoé?<script>lost and found, and the rest")
		}
		if e.Kind == "end" && (e.State != job.Finished || e.Outcome != job.Succeeded) {
			t.Errorf("the end is %+v", e)
		}
	}
	if got.String() != "one étwoé\xff<script>found, and the rest" {
		t.Errorf("got %q", got.String())
	}
	if missed != int64(len("lost and ")) || !live || kinds[0] != "state" || kinds[len(kinds)-1] != "end" {
		t.Errorf("missed %d, live %v, events %q", missed, live, kinds)
	}
}

func TestLogsGoOnAfterABreak(t *testing.T) {
	t.Parallel()
	w := &writer{}
	f := newFleet(t, func(c *parts) { c.Line = w })
	id, end := f.runsByHand(w)
	w.write("seen before, ")
	var last string
	ctx, cancel := context.WithCancel(t.Context())
	req, _ := http.NewRequestWithContext(ctx, "GET", f.url+"/v1/jobs/"+string(id)+"/logs", nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var read bytes.Buffer
	for buf := make([]byte, 4096); !strings.Contains(read.String(), "seen before"); {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		read.Write(buf[:n])
	}
	cancel()
	_ = resp.Body.Close()
	for _, line := range strings.Split(read.String(), "\n") {
		if v, ok := strings.CutPrefix(line, "id: "); ok {
			last = v
		}
	}
	end("seen before, and after")
	_, body := f.do("GET", "/v1/jobs/"+string(id)+"/logs", "", "Last-Event-ID", last)
	if strings.Contains(body, "seen before") || !strings.Contains(body, `"text":"and after"`) || !strings.Contains(body, "event: end") {
		t.Errorf("from %q on: %s", last, body)
	}
	f.want(http.StatusUnprocessableEntity, nil, "GET", "/v1/jobs/"+string(id)+"/logs", "", "Last-Event-ID", "x")
	f.want(http.StatusNotFound, nil, "GET", "/v1/jobs/"+string(job.NewID())+"/logs", "")
	w.mu.Lock()
	asked := w.asked
	w.mu.Unlock()
	time.Sleep(600 * time.Millisecond) // more than two polling periods
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked != asked {
		t.Errorf("the worker is asked though nobody watches")
	}
}

// The logs of a finished job come from its record and its stored outputs. If the middle is cut, a viewer that has the
// head gets the tail.
func TestLogsOfAJobThatIsOver(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	big := strings.Repeat("0123456789é", 30_000)
	id := f.outputs(func(_ store.Claimed, put func(string, int, string) *job.StoredOutput, r *job.Result) {
		r.Stdout = job.Output{Text: "01…", Bytes: int64(len(big)), Stored: put("stdout", object.WholeOutput, big)}
		r.Stderr = job.Output{Text: "head\n… 80 bytes cut …\ntail", Bytes: 88, Truncated: true}
	})
	var out, errs strings.Builder
	for e, err := range f.client().Logs(t.Context(), id) {
		if err != nil {
			t.Fatal(err)
		}
		switch e.Kind {
		case "stdout":
			if e.Base64 != "" || len(e.Text) > 64<<10 {
				t.Fatalf("a part of %d bytes, base64 %.20q", len(e.Text), e.Base64)
			}
			out.WriteString(e.Text)
		case "stderr":
			errs.Write(e.Bytes())
		}
	}
	if out.String() != big || errs.String() != "head\n… 80 bytes cut …\ntail" {
		t.Errorf("got %d bytes and %q", out.Len(), errs.String())
	}
	_, body := f.do("GET", "/v1/jobs/"+string(id)+"/logs", "", "Last-Event-ID", fmt.Sprintf("0.0.%d.86", len(big)))
	if !strings.Contains(body, `"text":"il"`) || strings.Contains(body, "head") || strings.Contains(body, "event: stdout") {
		t.Errorf("who has seen nearly all gets %s", body)
	}
}
