package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/assay-run/assay/pkg/job"
)

func TestApply(t *testing.T) {
	t.Parallel()
	raw := `{"memory":"512Mi","stdout":{"limit":"1Mi"},"network":{"mode":"open"},"asked":{"cpu":"forged"}}`
	refuses, err := ParseCeiling([]byte(`{"memory":"128Mi","stdout":"1Ki","network":"none"}`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = refuses.Apply(parse(t, raw))
	r := new(Refusal)
	if !errors.As(err, &r) || len(r.Fields) != 3 {
		t.Errorf("refused with %v, want three fields", err)
	}
	lowers := refuses
	lowers.Above = Lower
	p, err := lowers.Apply(parse(t, raw))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"memory": "512Mi", "stdout": "1Mi, truncate", "network": "open; 1Gi"}
	if d := cmp.Diff(want, p.Asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
	plan, err := p.Plan(cellHost)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]job.Enforcement{}
	for _, row := range plan.Enforcement {
		got[row.Capability] = row
	}
	if m := got["memory"]; m.Requested != "512Mi" || m.Applied != "128Mi" {
		t.Errorf("memory: %+v", m)
	}
	if n := got["network"]; n.Requested != "open; 1Gi" || n.Applied != "none" {
		t.Errorf("network: %+v", n)
	}
	if c := got["cpu"]; c.Requested != "1" {
		t.Errorf("cpu: %+v", c)
	}
	again, err := Parse(must(p.MarshalJSON()))
	if d := cmp.Diff(p, again); d != "" || err != nil {
		t.Errorf("the worker reads %v\n%s", err, d)
	}
}

// TestCeilingOfHosts checks that a tenant's allow-list stays within its ceiling's. Private addresses need an
// operator's entry. A tenant's policy cannot open them.
func TestCeilingOfHosts(t *testing.T) {
	t.Parallel()
	c, err := ParseCeiling([]byte(`{"network_allow":["*.corp.test:443","0.0.0.0/0:443"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Apply(parse(t, `{"network":{"mode":"allow","allow":["a.corp.test:443","8.8.8.8:443"]}}`)); err != nil {
		t.Error(err)
	}
	for raw, want := range map[string]string{
		`{"network":{"mode":"allow","allow":["a.corp.test:443","127.0.0.1:443","evil.test:443"]}}`: "policy.network.allow: 127.0.0.1:443, evil.test:443 is not within the ceiling of *.corp.test:443, 0.0.0.0/0:443",
		`{"network":{"mode":"open"}}`: "policy.network.mode: open is above the ceiling, which is a list: *.corp.test:443, 0.0.0.0/0:443",
	} {
		if _, err := c.Apply(parse(t, raw)); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", raw, err, want)
		}
	}
	c.Above = Lower
	for raw, want := range map[string]Network{
		`{"network":{"mode":"allow","allow":["a.corp.test:443","127.0.0.1:443"]}}`: {Mode: NetworkAllow, Allow: []string{"a.corp.test:443"}, MaxBytes: job.GiB},
		`{"network":{"mode":"allow","allow":["127.0.0.1:443"]}}`:                   {Mode: NetworkNone, MaxBytes: job.GiB},
		`{"network":{"mode":"open"}}`:                                              {Mode: NetworkNone, MaxBytes: job.GiB},
	} {
		p, err := c.Apply(parse(t, raw))
		if d := cmp.Diff(want, p.Network); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", raw, err, d)
		}
	}
	if _, err := ParseCeiling([]byte(`{"network_allow":["evil"]}`)); err == nil {
		t.Error("a bad rule was accepted")
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{"strict": 0, "strict@1": 1, "strict@12": 12} {
		if name, v, err := Version(in); err != nil || name != "strict" || v != want {
			t.Errorf("%s: %s, %d, %v", in, name, v, err)
		}
	}
	for _, bad := range []string{"strict@", "strict@0", "strict@-1", "strict@01", "strict@x", "strict@1@2", "strict@99999999999"} {
		if _, _, err := Version(bad); !errors.Is(err, job.ErrInvalid) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestPrivateAddressesAreTheCeilings checks that only the ceiling opens addresses that are not public.
func TestPrivateAddressesAreTheCeilings(t *testing.T) {
	t.Parallel()
	const asks = `{"network":{"mode":"allow","allow":["10.1.2.3:443"],"private":["127.0.0.0/8:*","10.0.0.0/8:*"]}}`
	for ceiling, want := range map[string][]string{
		``:   nil,
		`{}`: nil,
		`{"network_private":["10.1.0.0/16:443"]}`:                                                  {"10.1.0.0/16:443"},
		`{"network_allow":["0.0.0.0/0:443","10.1.0.0/16:443"]}`:                                    {"10.1.0.0/16:443"},
		`{"network_allow":["*.example.org:443"],"network_private":["10.1.2.3:443"]}`:               {"10.1.2.3:443"},
		`{"above":"clamp","network_allow":["*.a.test:443"],"network_private":["10.9.0.0/16:443"]}`: nil, // the list is left empty, so the network is none
	} {
		c, err := ParseCeiling(json.RawMessage(ceiling))
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Apply(parse(t, asks))
		if err != nil || !slices.Equal(p.Network.Private, want) {
			t.Errorf("%s: %v, %v; want %v", ceiling, p.Network.Private, err, want)
		}
	}
	if p, err := (Ceiling{NetworkPrivate: []string{"10.0.0.0/8:443"}}).Apply(parse(t, `{}`)); err != nil || p.Network.Private != nil {
		t.Errorf("without a network: %+v, %v", p.Network, err)
	}
	if _, err := ParseCeiling(json.RawMessage(`{"network_private":["db.internal:5432"]}`)); err == nil || !strings.Contains(err.Error(), "ceiling.network_private: ") {
		t.Errorf("a name: %v", err)
	}
}
