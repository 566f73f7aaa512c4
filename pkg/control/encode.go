package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// Encode and Decode are the only wire encoding of control messages. It is JSON, and after a newline
// the data that may take megabytes and that no relay has to parse.
func Encode(v any) ([]byte, error) {
	var load []byte
	switch r := v.(type) {
	case SessionCall:
		load = r.Data
	case SessionReply:
		load = r.Data
	case FinishRequest:
		v, load = r.apart()
	}
	head, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return withLoad(head, load), nil
}

func withLoad(head, load []byte) []byte {
	if len(load) == 0 {
		return head
	}
	out := make([]byte, 0, len(head)+1+len(load))
	return append(append(append(out, head...), '\n'), load...)
}

// Decode reads the output of Encode.
func Decode(b []byte, v any) error {
	switch v := v.(type) {
	case *SessionCall:
		b, v.Data, _ = bytes.Cut(b, []byte("\n"))
	case *SessionReply:
		b, v.Data, _ = bytes.Cut(b, []byte("\n"))
	case *FinishRequest:
		head, load, _ := bytes.Cut(b, []byte("\n"))
		if err := json.Unmarshal(head, v); err != nil {
			return err
		}
		return v.unpackResults(load)
	}
	return json.Unmarshal(b, v)
}

// apart returns r without its results, and the results. Inside r, each would be validated, copied
// and skipped once more at either end.
func (r FinishRequest) apart() (FinishRequest, []byte) {
	var load []byte
	r.Finishes = slices.Clone(r.Finishes)
	for i := range r.Finishes {
		f := &r.Finishes[i]
		r.Sizes = append(r.Sizes, len(f.Result))
		load = append(load, f.Result...)
		f.Result = nil
	}
	return r, load
}

// unpackResults restores the results of r. It does not check that they are JSON; the dispatcher does.
func (r *FinishRequest) unpackResults(load []byte) error {
	if len(r.Sizes) != len(r.Finishes) {
		return fmt.Errorf("%d sizes for %d results", len(r.Sizes), len(r.Finishes))
	}
	for i, n := range r.Sizes {
		if n < 0 || n > len(load) {
			return fmt.Errorf("result %d has %d bytes, and %d are left", i, n, len(load))
		}
		result := load[:n:n]
		load = load[n:]
		if n == 0 {
			continue // the store checks empty results
		}
		r.Finishes[i].Result = result
	}
	if len(load) > 0 {
		return fmt.Errorf("%d bytes behind the last result", len(load))
	}
	r.Sizes = nil
	return nil
}
