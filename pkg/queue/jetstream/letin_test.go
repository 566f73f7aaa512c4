package jetstream_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/assay-run/assay/internal/testenv"
	"github.com/assay-run/assay/pkg/control"
	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/queue/identity"
	"github.com/assay-run/assay/pkg/store"
)

// TestWhoIsLetIn checks that no client connects as another.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	other, err := identity.ParseKey(identity.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	joined, err := identity.NewWorker("pod", "default", s.key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := identity.NewWorker("pod", "default", s.key.JoinToken("default"))
	if err != nil {
		t.Fatal(err)
	}
	nkey := func(w identity.Worker) nats.Option {
		public, err := w.Key.PublicKey()
		if err != nil {
			t.Fatal(err)
		}
		return nats.Nkey(public, w.Key.Sign)
	}
	_, dispatcher := s.key.Public()
	for name, c := range map[string]struct {
		o  []nats.Option
		ok bool
	}{
		"with its own token":             {nil, true},
		"with a token of the pool":       {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token), nkey(joined)}, true},
		"as another, with its own":       {[]nats.Option{nats.UserInfo("default.victim", s.key.Token("evil", "default"))}, false},
		"in another pool, with its own":  {[]nats.Option{nats.UserInfo("gpu.evil", s.key.Token("evil", "default"))}, false},
		"as several":                     {[]nats.Option{nats.UserInfo("default.*", s.key.Token("evil", "default"))}, false},
		"without a token":                {[]nats.Option{nats.UserInfo("default.evil", "")}, false},
		"without a name":                 {[]nats.Option{nats.UserInfo("", "")}, false},
		"with a token of another fleet":  {[]nats.Option{nats.UserInfo("default.evil", other.Token("evil", "default"))}, false},
		"as another, with the pool's":    {[]nats.Option{nats.UserInfo("default.victim", joined.Token), nkey(joined)}, false},
		"as another that joined":         {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token), nkey(foreign)}, false},
		"joined, and signed nothing":     {[]nats.Option{nats.UserInfo("default."+joined.ID, joined.Token)}, false},
		"as a dispatcher":                {[]nats.Option{nats.Nkey(dispatcher, other.Dispatcher().Sign)}, false},
		"as a dispatcher of another one": {[]nats.Option{nats.Nkey(dispatcher, s.key.Issuer().Sign)}, false},
		"after it was told to go":        {[]nats.Option{nats.UserInfo("default.expelled", s.key.Token("expelled", "default"))}, false},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			e, err := s.dial(c.o...)
			if err == nil {
				e.nc.Close()
			}
			if (err == nil) != c.ok {
				t.Errorf("connect: %v", err)
			}
		})
	}
}

// TestSealed checks that a reader of all messages, even with a dispatcher's rights at the server, sees no
// spec, no secret and no code of a session.
func TestSealed(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	nc, err := nats.Connect(s.url, nats.Nkey(publicOf(s.key), s.key.Dispatcher().Sign))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	tap, err := nc.SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	w := connectAs(t, s.server, s.key, "victim", "default", 0)
	heard := make(chan string, 2)
	if err := w.OnAssign(t.Context(), "victim", func(a control.Assignment) error { heard <- string(a.Claimed.Spec); return nil }); err != nil {
		t.Fatal(err)
	}
	err = w.ServeSessions(t.Context(), "victim", func(_ context.Context, c control.SessionCall) (control.SessionReply, error) {
		heard <- c.Code
		return control.SessionReply{}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	big, err := json.Marshal(strings.Repeat(theSecret, 300_000))
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range []json.RawMessage{json.RawMessage(`"` + theSecret + `"`), big} {
		a := control.Assignment{Claimed: store.Claimed{Spec: spec}, Secrets: control.Secrets{"A": theSecret}}
		if err := s.dispatcher.Assign(t.Context(), "victim", a); err != nil {
			t.Fatal(err)
		}
		if got := testenv.Receive(t, "the assignment", heard); got != string(spec) {
			t.Errorf("%d bytes arrived of %d", len(got), len(spec))
		}
	}
	if _, err := s.dispatcher.CallSession(t.Context(), "victim", control.SessionCall{Op: control.SessionOpen, Code: theSecret}); err != nil {
		t.Fatal(err)
	}
	if got := testenv.Receive(t, "the call", heard); got != theSecret {
		t.Errorf("the session heard %q", got)
	}
	got, err := w.Claim(t.Context(), control.ClaimRequest{Worker: "victim", Refs: []store.Ref{{Job: job.NewID(), Generation: 1}}})
	if err != nil || len(got.Claimed) != 1 || !strings.Contains(string(got.Claimed[0].Spec), theSecret) {
		t.Fatalf("claim: %+v, %v", got, err)
	}

	// A worker that has started anew under its name has another key.
	again := connectAs(t, s.server, s.key, "reborn", "default", 0)
	stop, end := context.WithCancel(t.Context())
	take := func(a control.Assignment) error { return nil }
	if err := again.OnAssign(stop, "reborn", take); err != nil {
		t.Fatal(err)
	}
	if err := s.dispatcher.Assign(t.Context(), "reborn", control.Assignment{}); err != nil {
		t.Fatal(err)
	}
	end()
	again.Close()
	again = connectAs(t, s.server, s.key, "reborn", "default", 0)
	if err := again.OnAssign(t.Context(), "reborn", take); err != nil {
		t.Fatal(err)
	}
	if err := s.dispatcher.Assign(t.Context(), "reborn", control.Assignment{}); err != nil {
		t.Errorf("to a worker that has started anew: %v", err)
	}

	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	messages := 0
	for {
		m, err := tap.NextMsg(200 * time.Millisecond)
		if err != nil {
			break
		}
		messages++
		if bytes.Contains(m.Data, []byte(theSecret)) {
			t.Errorf("in clear on %s", m.Subject)
		}
	}
	if messages < 10 {
		t.Errorf("read %d messages along", messages)
	}
}
