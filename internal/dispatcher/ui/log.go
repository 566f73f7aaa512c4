package ui

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/assay-run/assay/internal/dispatcher/ui/display"
	"github.com/assay-run/assay/pkg/job"
)

// maxScreen is the most bytes of an output on a screen. Only these are read.
const maxScreen = 64 << 10

type logPage struct {
	Job                                 job.ID
	Stream, Of                          string // Of is the step in addresses, from 0
	Step                                int    // from 1; 0: the whole job
	Spans                               []display.Span
	From, To, Size                      int64
	First, Prev, Next, Last, Raw, Again string
	None                                bool // the output is empty
}

// log shows a screen of an output, which it reads as a range.
func (s *Server) log(v *visit) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	name := v.r.PathValue("stream")
	if name != "stdout" && name != "stderr" {
		return fmt.Errorf("%w: %.40q is not an output; the outputs are stdout and stderr", job.ErrNotFound, name)
	}
	q := url.Values{}
	if step := v.r.URL.Query().Get("step"); step != "" {
		q.Set("step", step)
	}
	text := v.r.URL.Query().Get("at")
	at, err := strconv.ParseInt(text, 10, 64)
	if text != "" && (err != nil || at < 0) {
		return job.Invalid("at", "%.40q must be a place in the output: 0 or more", text)
	}
	p := logPage{Job: id, Stream: name, Of: q.Get("step")}
	raw, err := v.screen("/v1/jobs/"+string(id)+"/output/"+name, q, at, &p)
	if err != nil {
		return err
	}
	if step, err := strconv.Atoi(p.Of); err == nil {
		p.Step = step + 1
	}
	p.Spans = display.ANSI(raw)
	p.links(v.r.URL.Path, q)
	return v.show("log", name, false, p)
}

// screen reads the part of an output from offset at, or from the next character if at is within one. The part ends after a line
// or, if lines are very long, after a character.
func (v *visit) screen(path string, q url.Values, at int64, p *logPage) (string, error) {
	rq := apiCall{Method: http.MethodGet, Path: path, Query: q, Header: http.Header{"Range": {fmt.Sprintf("bytes=%d-%d", at, at+maxScreen-1)}}}
	got, err := v.api().Do(v.r.Context(), rq)
	if errors.Is(err, errRange) && at > 0 {
		return "", fmt.Errorf("%w: the output has no byte %d", job.ErrNotFound, at)
	}
	if errors.Is(err, errRange) {
		p.None = true
		return "", nil
	}
	if err != nil {
		return "", err
	}
	text := got.Body.String()
	if _, size, ok := strings.Cut(got.Header().Get("Content-Range"), "/"); ok {
		p.Size, _ = strconv.ParseInt(size, 10, 64)
	} else {
		text = head(text, maxScreen) // the response is the whole output
		p.Size = int64(got.Body.Len())
	}
	p.From = at
	if at > 0 {
		n := characterStart(text)
		text, p.From = text[n:], at+int64(n)
	}
	if p.From+int64(len(text)) < p.Size {
		text = text[:lineEnd(text)]
	}
	if p.To = p.From + int64(len(text)); p.Size == 0 {
		p.None = true
	}
	return text, nil
}

// characterStart returns the length of the rest of a character at the start of text.
func characterStart(text string) int {
	for n := range min(len(text), utf8.UTFMax) {
		if utf8.RuneStart(text[n]) {
			return n
		}
	}
	return min(len(text), utf8.UTFMax-1) // no UTF-8, or the end of the last character
}

// lineEnd returns the end of the last complete line of text, or of its last complete character.
func lineEnd(text string) int {
	if i := strings.LastIndexByte(text, '\n'); i > len(text)/2 {
		return i + 1
	}
	for n := len(text); n > len(text)-utf8.UTFMax && n > 0; n-- {
		if utf8.RuneStart(text[n-1]) {
			if r, size := utf8.DecodeRuneInString(text[n-1:]); r == utf8.RuneError && size <= 1 && n > 1 {
				return n - 1
			}
			break
		}
	}
	return len(text)
}

func (p *logPage) links(path string, q url.Values) {
	at := func(n int64) string {
		q := url.Values{"step": q["step"], "at": {strconv.FormatInt(max(n, 0), 10)}}
		return path + "?" + q.Encode()
	}
	if p.From > 0 {
		p.First, p.Prev = at(0), at(p.From-maxScreen)
	}
	if p.To < p.Size {
		p.Next, p.Last = at(p.To), at(p.Size-maxScreen)
	}
	p.Raw = "/ui/jobs/" + string(p.Job) + "/output/" + p.Stream
	if p.Of != "" {
		p.Raw += "?step=" + url.QueryEscape(p.Of)
	}
}
