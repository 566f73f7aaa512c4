package transfer

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/assay-run/assay/pkg/job"
)

// Small outputs stay in the result, in every encoding. Of large ones, the head and the tail stay.
func TestWhichOutputsAreStored(t *testing.T) {
	t.Parallel()
	most := int(job.MaxInline)
	output := func(s string) job.Output { return job.Output{Text: s, Bytes: int64(len(s))} }
	large := output(strings.Repeat("x", most))
	for name, c := range map[string]struct {
		res    job.Result
		n      int
		chunks bool // whether they stay
	}{
		"none":              {job.Result{}, 0, true},
		"small":             {job.Result{Stdout: output("hello")}, 0, true},
		"just small enough": {job.Result{Stdout: output(strings.Repeat("x", most-2))}, 0, true},
		"too large":         {job.Result{Stdout: large}, 1, true},
		"large as JSON":     {job.Result{Stderr: output(strings.Repeat("\x01", most/4))}, 1, true},
		"both and steps":    {job.Result{Stdout: large, Stderr: large, Steps: []job.StepResult{{Stdout: large}, {Stderr: large}}}, 4, true},
		"binary":            {job.Result{Stdout: job.Output{Text: "\ufffd", Bytes: 1, Binary: true, Base64: []byte("\xff")}}, 0, true},
		"large as base64":   {job.Result{Stdout: job.Output{Text: "\ufffd", Binary: true, Base64: bytes.Repeat([]byte("\xff"), most)}}, 1, true},
		"chunks":            {job.Result{Output: []job.Chunk{{Text: strings.Repeat("x", most)}}}, 0, false},
	} {
		if c.res.Output == nil {
			c.res.Output = []job.Chunk{{Text: "x"}}
		}
		out, err := opened(t).Outputs(t.Context(), Owner{"acme", job.NewID(), 1}, &c.res)
		if err != nil || out.N != c.n || out.Tried != (c.n > 0) || (out.Bytes > 0) != (c.n > 0) {
			t.Errorf("%s: %+v, %v, want %d", name, out, err, c.n)
		}
		all := []job.Output{c.res.Stdout, c.res.Stderr}
		for _, s := range c.res.Steps {
			all = append(all, s.Stdout, s.Stderr)
		}
		stored := 0
		for _, o := range all {
			if o.Stored != nil {
				stored++
			}
			if o.Stored != nil && (o.Base64 != nil || o.Binary && o.Stored.Bytes != int64(most) || !utf8.ValidString(o.Text)) {
				t.Errorf("%s: %d bytes of base64 beside %d bytes that are stored", name, len(o.Base64), o.Stored.Bytes)
			}
			if n := job.EncodedSize(o.Text); n > most {
				t.Errorf("%s: %d bytes inline", name, n)
			}
		}
		if stored != c.n || (c.res.Output != nil) != c.chunks {
			t.Errorf("%s: %d are stored, chunks: %t", name, stored, c.res.Output != nil)
		}
	}
}

// If the store is unavailable, Tried reports that objects may exist.
func TestOutputsOfAStoreThatIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &Store{Objects: &flaky{with: job.ErrUnavailable, fails: 100}}
		res := job.Result{Stderr: job.Output{Text: strings.Repeat("x", 1<<20)}}
		out, err := s.Outputs(t.Context(), Owner{"acme", job.NewID(), 1}, &res)
		if !errors.Is(err, job.ErrUnavailable) || !strings.Contains(err.Error(), "store stderr") || !out.Tried || out.N != 0 {
			t.Errorf("%+v, %v", out, err)
		}
	})
}
