package control

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/store"
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

// Results follow the request.
func TestResultsAreBehindTheRequest(t *testing.T) {
	want := FinishRequest{Worker: "w", Finishes: []store.Finish{
		{Outcome: job.Succeeded, Result: json.RawMessage("{\"a\":\"<\\n>\"}")},
		{Outcome: job.Failed, Result: json.RawMessage("{\n}")},
	}}
	raw, err := Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	if want.Finishes[0].Result == nil || want.Sizes != nil {
		t.Errorf("encoding changed the request: %+v", want)
	}
	if !bytes.HasSuffix(raw, []byte("\n{\"a\":\"<\\n>\"}{\n}")) {
		t.Errorf("results are not behind it, as they are: %s", raw)
	}
	var got FinishRequest
	if err := Decode(raw, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Finishes) != 2 || got.Sizes != nil || got.Finishes[0].Outcome != job.Succeeded || got.Finishes[1].Outcome != job.Failed {
		t.Fatalf("%+v", got)
	}
	for i, f := range got.Finishes {
		if !bytes.Equal(f.Result, want.Finishes[i].Result) {
			t.Errorf("result %d is %s, want %s", i, f.Result, want.Finishes[i].Result)
		}
	}
}

func TestResultsThatAreNotThere(t *testing.T) {
	for _, raw := range []string{
		`{"finishes":[{"result":{}}]}`,
		`{"finishes":[{"result":null}],"sizes":[2,2]}` + "\n{}{}",
		`{"finishes":[{"result":null}],"sizes":[3]}` + "\n{}",
		`{"finishes":[{"result":null}],"sizes":[-1]}` + "\n{}",
		`{"finishes":[{"result":null}],"sizes":[2]}` + "\n{}{}",
		`{"finishes":[{"result":null}],"sizes":[2]}`,
	} {
		var got FinishRequest
		if err := Decode([]byte(raw), &got); err == nil {
			t.Errorf("%q was taken: %+v", raw, got)
		}
	}
}
