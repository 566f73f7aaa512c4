package mcp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/assay-run/assay/pkg/job"
)

// TestSessionEndsWithItsClient checks that a session is closed when its client is gone.
func TestSessionEndsWithItsClient(t *testing.T) {
	t.Parallel()
	f := newScripted()
	a := serve(t, Config{Fleet: f, Policy: []byte(`"small"`)})
	var c Created
	a.tool("create_session", object{"kind": "shell"}, &c)
	if s := f.created[0]; c.SessionID != someID || s.Kind != job.SessionShell || string(s.Policy) != `"small"` || s.Lease.D() != lease || s.IdleTimeout.D() != job.MaxIdle {
		t.Errorf("%+v, %+v", c, s)
	}
	_ = a.Close()
	if err := <-a.served; err != nil {
		t.Error(err)
	}
	if !f.has("close " + string(someID)) {
		t.Errorf("the session was left alone: %v", f.did)
	}
}

// TestCloseSession checks that a closed session is not closed again, and that its id is forgotten.
func TestCloseSession(t *testing.T) {
	t.Parallel()
	f := newScripted()
	a := serve(t, Config{Fleet: f})
	a.tool("create_session", nil, nil)
	var c Closed
	if a.tool("close_session", object{"session_id": someID}, &c); !c.Closed || !f.has("close "+string(someID)) {
		t.Errorf("%+v, %v", c, f.did)
	}
	f.did = nil
	_ = a.Close()
	<-a.served
	if len(f.did) > 0 {
		t.Errorf("it was closed again: %v", f.did)
	}
}

// TestRenew checks that the leases of sessions are renewed in time, and no longer after their end.
func TestRenew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newScripted()
		s := &sessions{fleet: f}
		s.add(someID)
		_ = s.during(t.Context(), func(context.Context) error { time.Sleep(lease + time.Second); return nil })
		if n := len(f.did); n != 4 || f.did[3] != "close "+string(someID) {
			t.Errorf("%v", f.did)
		}
		f.did, f.err = nil, job.ErrNotFound
		_ = s.during(t.Context(), func(context.Context) error { time.Sleep(lease + time.Second); return nil })
		if len(f.did) != 1 {
			t.Errorf("one that has ended: %v", f.did)
		}
	})
}

// TestExecute checks that arguments reach the session, and that a canceled call interrupts it.
func TestExecute(t *testing.T) {
	t.Parallel()
	f := newScripted()
	a := serve(t, Config{Fleet: f})
	var p Payload
	a.tool("execute", object{"session_id": someID, "code": "x", "timeout": 0.0001, "variables": object{"n": 1}}, &p)
	if ask := f.asked[0]; ask.Code != "x" || ask.Wall.D() != time.Millisecond || string(ask.Variables["n"]) != "1" || !p.Success || p.SessionID != someID || p.Alive == nil || !*p.Alive {
		t.Errorf("%+v, %+v", ask, p)
	}
	f.hang = true
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := a.CallTool(ctx, &sdk.CallToolParams{Name: "execute", Arguments: object{"session_id": someID, "command": "sleep"}})
		over <- err
	}()
	soon(t, "it executes", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.asked) == 2 })
	cancel()
	soon(t, "it is interrupted", func() bool { return f.has("interrupt " + string(someID)) })
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestReadArtifact checks that files are read in parts, as text if they are text.
func TestReadArtifact(t *testing.T) {
	t.Parallel()
	f := newScripted()
	f.files = map[string]string{"/workspace/a.txt": "äöü", "/b": "\xff\x00\x01", "/long": strings.Repeat("x", maxPart+1), "/workspace/a b%.txt": "x"}
	f.result.Artifacts = []job.Artifact{{Path: "/workspace/a.txt", Bytes: 6, MediaType: "text/plain"}, {Path: "/workspace/a b%.txt"}, {Path: "/b"}, {Path: "/long"}}
	a := serve(t, Config{Fleet: f})
	for _, c := range []struct {
		args object
		want Part
		err  string
	}{
		{object{"job_id": someID, "path": "a.txt"}, Part{"äöü", "text", 0, 6, 0}, ""},
		{object{"job_id": someID, "path": "a.txt", "limit": 3}, Part{"ä", "text", 0, 2, 2}, ""},
		{object{"session_id": someID, "path": "a.txt", "limit": 3, "offset": 2}, Part{"ö", "text", 2, 2, 4}, ""},
		{object{"job_id": someID, "path": "/b"}, Part{"/wAB", "base64", 0, 3, 0}, ""},
		{object{"job_id": someID, "path": "/b", "encoding": "text"}, Part{"\uFFFD\x00\x01", "text", 0, 3, 0}, ""},
		{object{"job_id": someID, "path": "/b", "encoding": "base64", "limit": 1}, Part{"/w==", "base64", 0, 1, 1}, ""},
		{object{"job_id": someID, "path": "/b", "offset": 4}, Part{}, "offset: 4 is beyond the end: there are 3 bytes"},
		{object{"job_id": someID, "path": "/none"}, Part{}, "not found: /none"},
	} {
		var got Part
		res := a.tool("read_artifact", c.args, &got)
		if res.IsError != (c.err != "") || !strings.Contains(said(res), c.err) || got != c.want {
			t.Errorf("%v: %+v %v, want %+v", c.args, got, said(res), c.want)
		}
	}
	var all Files
	a.tool("list_artifacts", object{"job_id": someID}, &all)
	for _, file := range all.Artifacts {
		res, err := a.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: file.URI})
		if file.Path == "/long" {
			if err == nil || !strings.Contains(err.Error(), "read_artifact reads it in parts") {
				t.Errorf("%v", err)
			}
			continue
		}
		if err != nil || res.Contents[0].Text+string(res.Contents[0].Blob) != f.files[file.Path] {
			t.Errorf("%s: %v", file.URI, err)
		}
	}
}
