package ui

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/assay-run/assay/api"
	"github.com/assay-run/assay/internal/dispatcher/ui/display"
)

// liveEvents passes on an event stream and replaces output of programs by displayable text.
type liveEvents struct {
	http.ResponseWriter
	rest     []byte // incomplete event
	out, err display.Terminal
}

// Unwrap implements the interface of http.ResponseController.
func (e *liveEvents) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// Write passes on complete events. It passes on other responses unchanged.
func (e *liveEvents) Write(b []byte) (int, error) {
	if e.Header().Get("Content-Type") != "text/event-stream" {
		return e.ResponseWriter.Write(b)
	}
	e.rest = append(e.rest, b...)
	for {
		event, rest, whole := bytes.Cut(e.rest, []byte("\n\n"))
		if !whole {
			return len(b), nil
		}
		if _, err := e.ResponseWriter.Write(append(e.shown(string(event)), "\n\n"...)); err != nil {
			return 0, err
		}
		e.rest = append([]byte{}, rest...)
	}
}

// livePart is a part of an output for the script.
type livePart struct {
	Missed int64       `json:"missed,omitempty"`
	Step   int         `json:"step,omitempty"`
	Spans  [][2]string `json:"spans"` // class and text
}

// shown returns an event for the page.
func (e *liveEvents) shown(event string) []byte {
	var id, name, data string
	for line := range strings.SplitSeq(event, "\n") {
		switch key, value, _ := strings.Cut(line, ": "); key {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			data = value
		}
	}
	terminal := map[string]*display.Terminal{"stdout": &e.out, "stderr": &e.err}[name]
	if name == "restart" {
		e.out, e.err = display.Terminal{}, display.Terminal{}
	}
	var p api.LogPart
	if terminal == nil || json.Unmarshal([]byte(data), &p) != nil {
		return []byte(event)
	}
	out := livePart{Missed: p.Missed, Step: p.Step, Spans: [][2]string{}}
	for _, span := range terminal.Write(textOf(p)) {
		out.Spans = append(out.Spans, [2]string{span.Class, span.Text})
	}
	raw, _ := json.Marshal(out) // text always marshals
	return fmt.Appendf(nil, "event: %s\nid: %s\ndata: %s", name, id, raw)
}

// textOf returns the exact output of a program.
func textOf(p api.LogPart) string {
	if p.Base64 == "" {
		return p.Text
	}
	raw, _ := base64.StdEncoding.DecodeString(p.Base64) // invalid base64 is not shown
	return string(raw)
}
