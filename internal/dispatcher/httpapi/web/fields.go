package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/assay-run/assay/pkg/job"
)

// Fields are the selected fields of an object; nil for all.
type Fields []string

// ReadFields reads ?fields=, a comma-separated list of top-level fields.
func ReadFields(r *http.Request, names []string) (Fields, error) {
	text := r.URL.Query().Get("fields")
	if text == "" {
		return nil, nil
	}
	var f Fields
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(names, name) {
			if n := job.Nearest(name, names); n != "" {
				return nil, job.Invalid("fields", "field %.80q does not exist; did you mean %s?", name, n)
			}
			return nil, job.Invalid("fields", "field %.80q does not exist; use one of %s", name, strings.Join(names, ", "))
		}
		f = append(f, name)
	}
	return f, nil
}

// Member is one field of an object.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the fields of an object in their order.
func Members(raw json.RawMessage) ([]Member, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var out []Member
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		m := Member{Name: fmt.Sprint(name)}
		if err := d.Decode(&m.Value); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// Join encodes the selected fields in the order of all.
func (f Fields) Join(all []Member) json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, m := range all {
		if f != nil && !slices.Contains(f, m.Name) {
			continue
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%q:%s", m.Name, m.Value)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// Of encodes the selected fields of v, which must encode as an object.
func (f Fields) Of(v any) (json.RawMessage, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	if f == nil {
		return raw, nil
	}
	all, err := Members(raw)
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return f.Join(all), nil
}
