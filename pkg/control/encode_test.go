package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

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

// Results follow the request. Results inside it, as older workers send them, are accepted as well.
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
	inside, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"behind": raw, "inside": inside} {
		var got FinishRequest
		if err := Decode(raw, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(got.Finishes) != 2 || got.Sizes != nil || got.Finishes[0].Outcome != job.Succeeded || got.Finishes[1].Outcome != job.Failed {
			t.Errorf("%s: %+v", name, got)
			continue
		}
		for i, f := range got.Finishes {
			var a, b any
			if err := errors.Join(json.Unmarshal(f.Result, &a), json.Unmarshal(want.Finishes[i].Result, &b)); err != nil || !cmp.Equal(a, b) {
				t.Errorf("%s: result %d is %s, want %s (%v)", name, i, f.Result, want.Finishes[i].Result, err)
			}
		}
	}
}

func TestResultsThatAreNotThere(t *testing.T) {
	for _, raw := range []string{
		`{"finishes":[{"result":null}],"sizes":[2,2]}` + "\n{}{}",
		`{"finishes":[{"result":null}],"sizes":[3]}` + "\n{}",
		`{"finishes":[{"result":null}],"sizes":[-1]}` + "\n{}",
		`{"finishes":[{"result":null}],"sizes":[2]}` + "\n{}{}",
		`{"finishes":[{"result":null}],"sizes":[2]}` + "\n{]",
		`{"finishes":[{"result":null}],"sizes":[2]}`,
	} {
		var got FinishRequest
		if err := Decode([]byte(raw), &got); err == nil {
			t.Errorf("%q was taken: %+v", raw, got)
		}
	}
}

// The first chunk of a request that is too large keeps the important fields.
func TestWithoutResult(t *testing.T) {
	one := store.Finish{LeaseRef: store.LeaseRef{Job: job.NewID(), Lease: 3}, Outcome: job.Succeeded, Tenant: "t", Result: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)}
	encode := func(fs ...store.Finish) []byte {
		t.Helper()
		raw, err := Encode(FinishRequest{Worker: "w", Finishes: fs})
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	raw := encode(one)
	out, ok := WithoutResult(raw[:len(raw)-900])
	if !ok {
		t.Fatal("not understood")
	}
	var got FinishRequest
	if err := Decode(out, &got); err != nil {
		t.Fatal(err)
	}
	want := FinishRequest{Worker: "w", Finishes: []store.Finish{one}, Omitted: 1002}
	want.Finishes[0].Result = nil
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, raw := range map[string][]byte{"half of the head": raw[:40], "two": encode(one, one), "none": encode(), "no request": []byte("x\ny"), "empty": nil} {
		if out, ok := WithoutResult(raw); ok {
			t.Errorf("%s: %s", name, out)
		}
	}
}
