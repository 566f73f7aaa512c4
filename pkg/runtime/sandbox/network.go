package sandbox

import (
	"fmt"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/netrule"
	"github.com/assay-run/assay/pkg/policy"
	"github.com/assay-run/assay/pkg/runtime"
	"github.com/assay-run/assay/pkg/runtime/egress"
)

// way is a job's network access; nil if it has none.
type way struct {
	proxy *egress.Proxy
	env   map[string]string // makes programs use it
}

// openEgress starts the policy's proxy before the program, so that the program cannot take its
// place.
func (a *Attempt) openEgress() (*way, error) {
	n := a.policy.Network
	if n.Mode == policy.NetworkNone {
		return nil, nil
	}
	rules := netrule.Any()
	if n.Mode == policy.NetworkAllow {
		var err error
		if rules, err = netrule.ParseRules(n.Allow); err != nil {
			return nil, fmt.Errorf("policy.network: %w", err)
		}
	}
	private, err := netrule.ParseRanges(n.Private)
	if err != nil {
		return nil, fmt.Errorf("policy.network.private: %w", err)
	}
	if a.Trusted { // the entries of an operator's list are open
		private = rules
	}
	rc, err := a.Init().FD.SyscallConn()
	if err != nil {
		return nil, err
	}
	w := &way{
		proxy: egress.New(egress.Config{Rules: rules, Private: private, Network: a.Network, Trusted: a.Trusted, MaxBytes: int64(n.MaxBytes), Toll: a.toll}),
		env:   egress.Variables(rules, private, a.Network.Private()),
	}
	cerr := rc.Control(func(fd uintptr) {
		l, lerr := egress.Listen(fd)
		if err = lerr; err == nil {
			w.proxy.Start(l)
		}
	})
	if cerr != nil {
		err = cerr
	}
	if err != nil {
		w.proxy.Close()
		return nil, fmt.Errorf("open a way out: %w", err)
	}
	return w, nil
}

// variables returns the environment that makes programs use the proxy.
func (w *way) variables() map[string]string {
	if w == nil {
		return nil
	}
	return w.env
}

// close ends every connection and records the traffic.
func (w *way) close(r *runtime.Report) {
	if w == nil {
		return
	}
	found := w.proxy.Close()
	out := &job.Network{
		Attempts: make([]job.NetworkAttempt, 0, len(found.Attempts)), Unlisted: found.Unlisted,
		SentBytes: found.Sent, ReceivedBytes: found.Received, Exceeded: found.Exceeded,
	}
	for _, a := range found.Attempts {
		to := job.NetworkAttempt{
			Protocol: a.Protocol, Host: a.Host, Port: int(a.Port), Decision: string(a.Decision), Reason: a.Reason,
			Count: a.Count, SentBytes: a.Sent, ReceivedBytes: a.Received,
		}
		if a.Address.IsValid() {
			to.Address = a.Address.String()
		}
		out.Attempts = append(out.Attempts, to)
	}
	r.Network, r.Usage.NetworkBytes = out, found.Sent+found.Received
	if found.Exceeded {
		r.Feedback = append(r.Feedback, "network: cut off at policy.network.max_bytes")
	}
}
