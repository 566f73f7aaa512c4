package ui_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/assay-run/assay/internal/dispatcher/identity"
	"github.com/assay-run/assay/internal/dispatcher/ui"
)

// Live output becomes text and class names, for any division into chunks. Other events and errors pass unchanged.
func TestLiveOutputIsText(t *testing.T) {
	t.Parallel()
	var asked []string
	page, err := ui.New(ui.Config{Gate: identity.Open{}, API: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Last-Event-ID"))
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: state\nid: 1\ndata: {\"state\":\"running\",\"live\":true}\n\n: alive\n\nevent: stdout\nid: 2\ndata: {\"offset\":0,\"text\":\"\\u001b[31m<b>red\\u001b[\"}\n\nevent: std")
		_, _ = io.WriteString(w, "out\nid: 3\ndata: {\"offset\":9,\"missed\":4,\"text\":\"0mplain\\u202e\\u001b]0;title\\u0007\"}\n\nevent: stderr\nid: 4\ndata: {\"offset\":0,\"base64\":\"/3g=\"}\n\n")
	})})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(page)
	defer srv.Close()
	f := &fleet{t: t, url: srv.URL}
	b := f.browser()
	_, got := b.get("/ui/jobs/01890a5d-ac96-774b-bcce-b302099a8057/logs?from=1.0.2.3")
	want := "event: state\nid: 1\ndata: {\"state\":\"running\",\"live\":true}\n\n: alive\n\n" +
		"event: stdout\nid: 2\ndata: {\"spans\":[[\"a-f1\",\"\\u003cb\\u003ered\"]]}\n\n" +
		"event: stdout\nid: 3\ndata: {\"missed\":4,\"spans\":[[\"\",\"plain⟨U+202E⟩\"]]}\n\n" +
		"event: stderr\nid: 4\ndata: {\"spans\":[[\"\",\"\ufffdx\"]]}\n\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if len(asked) != 1 || asked[0] != "1.0.2.3" {
		t.Errorf("asked from %q", asked)
	}
}
