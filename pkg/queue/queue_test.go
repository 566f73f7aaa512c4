package queue

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLoad(t *testing.T) {
	for _, load := range [][]byte{nil, []byte("\n{}\n\x00"), bytes.Repeat([]byte{'"'}, 1<<20)} {
		call := SessionCall{Op: SessionPut, Path: "/a\nb", Data: load}
		raw, err := Encode(call)
		if err != nil {
			t.Fatal(err)
		}
		var got SessionCall
		if err := Decode(raw, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(call, got); diff != "" {
			t.Errorf("call (-want +got):\n%s", diff)
		}
		reply := SessionReply{Data: load}
		if raw, err = Encode(reply); err != nil {
			t.Fatal(err)
		}
		var back SessionReply
		if err := Decode(raw, &back); err != nil || !bytes.Equal(back.Data, load) {
			t.Errorf("reply of %d bytes: %d, %v", len(load), len(back.Data), err)
		}
	}
}
