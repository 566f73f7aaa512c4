package placement

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/policy"
)

func TestClassSaysTheNeed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(1, 20, 60)
		n := Need{
			Pool:      text.Draw(t, "pool"),
			Isolation: rapid.SampledFrom([]policy.Isolation{"", policy.GVisor, policy.VM}).Draw(t, "isolation"),
			Memory:    roundUp(job.Size(rapid.Int64Range(0, 1<<40).Draw(t, "memory"))),
			Image:     rapid.StringN(0, 20, 60).Draw(t, "image"),
		}
		if l := rapid.MapOfN(text, rapid.String(), 0, 3).Draw(t, "labels"); len(l) > 0 {
			n.Labels = l
		}
		if n.Class() == n.Pool {
			return // an ordinary one
		}
		if diff := cmp.Diff(n, ParseClass(n.Class())); diff != "" {
			t.Fatalf("%q (-need +read):\n%s", n.Class(), diff)
		}
	})
}

func TestParseClassOfAnything(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "default", "?", "a?b", "a?memory=lots", "a?memory=1000000001", "%zz?isolation=vm", "a?isolation=vm&isolation=vm", "a?b=%zz"} {
		if got := ParseClass(name); got.Pool != name || got.String() != "" {
			t.Errorf("%q is read as %+v", name, got)
		}
	}
}

func TestMemoryIsRoundedUp(t *testing.T) {
	t.Parallel()
	for _, m := range []job.Size{1, 15, 513 * job.MiB, job.GiB, 3*job.GiB + 1, 1 << 50} {
		if r := roundUp(m); r < m || r > m+m/8 || roundUp(r) != r {
			t.Errorf("%s becomes %s", m, r)
		}
	}
}

func TestNeedOf(t *testing.T) {
	t.Parallel()
	reserved := func(image string) bool { return image == "cuda" }
	python := job.Program{Python: &job.Python{Code: "1"}}
	for want, c := range map[string]struct {
		spec   job.Spec
		change func(*policy.Policy)
	}{
		"":                   {spec: job.Spec{Program: python}},
		"?memory=1Gi":        {job.Spec{Program: python}, func(p *policy.Policy) { p.Memory = job.GiB }},
		"p":                  {spec: job.Spec{Pool: "p", Image: "python", Program: python}},
		"p?isolation=gvisor": {job.Spec{Pool: "p", Program: python}, func(p *policy.Policy) { p.Isolation = policy.GVisor }},
		"p?memory=1Gi":       {job.Spec{Pool: "p", Program: python}, func(p *policy.Policy) { p.Memory = job.GiB }},
		"p?memory=2Gi":       {job.Spec{Pool: "p", Program: job.Program{Tests: &job.Tests{Check: "c"}}}, func(p *policy.Policy) { p.Memory = job.GiB }},
		"p?image=cuda&label.gpu=a100&label.zone=b": {spec: job.Spec{Pool: "p", Image: "cuda", Program: python, Requires: map[string]string{"zone": "b", "gpu": "a100"}}},
	} {
		p := policy.Default()
		if c.change != nil {
			c.change(&p)
		}
		if got := NeedOf(&c.spec, &p, reserved).Class(); got != want {
			t.Errorf("class %q, want %q", got, want)
		}
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	offer := Offer{Isolations: []policy.Isolation{policy.Task, policy.GVisor}, Memory: 2 * job.GiB, Labels: map[string]string{"gpu": "a100"}}
	only := offer
	only.Images = []string{"cuda"}
	for _, c := range []struct {
		offer Offer
		need  Need
		lacks string
	}{
		{offer, Need{}, ""},
		{Offer{}, Need{Memory: 1 << 40}, ""}, // no bound
		{offer, Need{Isolation: policy.GVisor, Memory: 2 * job.GiB, Image: "cuda", Labels: map[string]string{"gpu": "a100"}}, ""},
		{offer, Need{Isolation: policy.VM}, "isolation vm"},
		{offer, Need{Memory: 2*job.GiB + 1}, "memory 2147483649"},
		{offer, Need{Labels: map[string]string{"gpu": "h100"}}, "label gpu=h100"},
		{offer, Need{Labels: map[string]string{"disk": ""}}, "label disk="},
		{only, Need{Image: "cuda"}, ""},
		{only, Need{}, "any image but cuda"},
	} {
		if got := c.offer.Lacks(c.need); got != c.lacks {
			t.Errorf("%+v for %+v lacks %q, want %q", c.offer, c.need, got, c.lacks)
		}
	}
}

func TestTakes(t *testing.T) {
	t.Parallel()
	shared, apart := Offer{Memory: 2 * job.GiB}, Offer{Memory: 2 * job.GiB, Exclusive: true}
	for class, want := range map[string]struct{ shared, apart bool }{
		Any:            {true, false},
		"?memory=1Gi":  {true, false},
		"?memory=3Gi":  {false, false},
		"p":            {true, true},
		"p?memory=1Gi": {true, true},
		"p?memory=3Gi": {false, false},
		"q":            {false, false},
		"q?memory=1Gi": {false, false},
	} {
		n := ParseClass(class)
		if a, b := shared.Takes("p", n), apart.Takes("p", n); a != want.shared || b != want.apart {
			t.Errorf("class %q: a shared pool takes it: %t, an exclusive one: %t", class, a, b)
		}
	}
}

func TestParsePools(t *testing.T) {
	t.Parallel()
	got, err := ParsePools([]string{"default", " gpu?exclusive&label.gpu=a100&label.zone=b%26c&image=cuda&image=ghcr.io%2Fours%2Ftorch%3A2"})
	want := Pools{"default": {}, "gpu": {Exclusive: true, Labels: map[string]string{"gpu": "a100", "zone": "b&c"}, Images: []string{"cuda", "ghcr.io/ours/torch:2"}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if !got.Exclusive("gpu") || got.Exclusive("default") || got.Exclusive("another") {
		t.Error("only gpu is exclusive")
	}
	if need := (Need{Pool: "gpu", Image: "cuda", Memory: 1 << 40, Isolation: policy.VM, Labels: map[string]string{"gpu": "a100"}}); !got.Offer("gpu").Takes("gpu", need) {
		t.Error("what was not said of a pool it is taken to have")
	}
	for _, text := range []string{"", "?exclusive", "gpu?exclusive=yes", "gpu?nonsense", "gpu?label.a=1&label.a=2", "%zz", "gpu?label.a=%zz"} {
		if ps, err := ParsePools([]string{text}); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%q is read as %+v, %v", text, ps, err)
		}
	}
	if _, err := ParsePools([]string{"a", "a?exclusive"}); !errors.Is(err, job.ErrInvalid) {
		t.Error("a pool has two meanings")
	}
}
