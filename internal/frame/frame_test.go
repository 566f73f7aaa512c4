package frame

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
)

// readObject reads a frame that is one JSON object.
func readObject(r io.Reader, l Limits) (json.RawMessage, error) {
	body, err := Read(r, l, nil)
	if err == nil {
		err = CheckObject(body)
	}
	return body, err
}

func TestFrames(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	for _, text := range []string{"", "x", strings.Repeat("long", 100_000)} {
		if err := Write(&stream, map[string]string{"text": text}); err != nil {
			t.Fatal(err)
		}
		raw, err := readObject(&stream, Bytes(Max))
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]string
		if err := json.Unmarshal(raw, &got); err != nil || got["text"] != text {
			t.Errorf("got %.40q (%v), want %.40q", got["text"], err, text)
		}
	}
	if _, err := readObject(&stream, Bytes(Max)); err != io.EOF {
		t.Errorf("at the end: %v, want io.EOF", err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for name, raw := range map[string][]byte{
		"half a length": {0, 0},
		"half a body":   of(`{"a": 1}`)[:8],
		"no object":     of(`[1]`),
		"two objects":   of(`{}{}`),
		"nothing":       of(""),
		"above limit":   binary.BigEndian.AppendUint32(nil, 101),
		"huge":          {0xff, 0xff, 0xff, 0xff},
	} {
		if _, err := readObject(bytes.NewReader(raw), Bytes(100)); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v, want ErrProtocol", name, err)
		}
	}
	if err := Write(io.Discard, strings.Repeat("x", Max)); err == nil {
		t.Error("wrote a frame above the limit")
	}
}

// FuzzRead checks that every accepted frame is an object within its limit, and every error io.EOF or ErrProtocol.
func FuzzRead(f *testing.F) {
	f.Add(of(`{"op": "x"}`))
	f.Add(append(of(`{}`), of(`{"a": [1, null]}`)...))
	f.Add(of("{}{}"))
	f.Add([]byte{0, 0, 1, 0, '{'})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Add(of(`{"0":1e00010000}`)) // a number that is valid JSON, and no float64
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		for {
			before := r.Len()
			body, err := readObject(r, Bytes(1<<16))
			if err == io.EOF {
				if before != 0 {
					t.Errorf("io.EOF with %d bytes left", before)
				}
				return
			}
			if err != nil {
				if !errors.Is(err, ErrProtocol) {
					t.Errorf("%v", err)
				}
				return
			}
			var v map[string]json.RawMessage // the frame does not check the numbers in it
			if len(body) > 1<<16 || json.Unmarshal(body, &v) != nil {
				t.Errorf("accepted %.100q", body)
			}
		}
	})
}

func of(body string) []byte { return Of([]byte(body)) }
