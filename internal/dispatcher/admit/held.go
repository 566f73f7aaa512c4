package admit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/assay-run/assay/pkg/job"
)

// Held is the restriction of a key: every job admitted for it has the label and the policy.
type Held struct {
	Key, Value string // a label; empty key: none
	Policy     string // name of a stored policy; empty: any
}

type heldKey struct{}

// WithHeld returns a context in which only jobs with the restriction are admitted. Every path to admission has a
// context, so none bypasses it.
func WithHeld(ctx context.Context, h Held) context.Context {
	return context.WithValue(ctx, heldKey{}, h)
}

// HeldIn returns the restriction of ctx.
func HeldIn(ctx context.Context) Held {
	h, _ := ctx.Value(heldKey{}).(Held)
	return h
}

// label returns KEY=VALUE, or "" without a label.
func (h Held) label() string {
	if h.Key == "" {
		return ""
	}
	return h.Key + "=" + h.Value
}

// Labels returns labels with the label of the restriction. It returns job.ErrRefused if the key has another value,
// and job.ErrInvalid if the labels exceed job.MaxLabels.
func (h Held) Labels(labels map[string]string) (map[string]string, error) {
	if h.Key == "" {
		return labels, nil
	}
	v, ok := labels[h.Key]
	if ok && v != h.Value {
		return nil, fmt.Errorf("%w: labels: this key is restricted to the label %.100s=%.100s; the value is %.100q", job.ErrRefused, h.Key, h.Value, v)
	}
	if !ok {
		if labels = maps.Clone(labels); labels == nil {
			labels = map[string]string{}
		}
		labels[h.Key] = h.Value
	}
	if len(labels) > job.MaxLabels {
		return nil, job.Invalid("labels", "has %d labels including the one of this key; at most %d", len(labels), job.MaxLabels)
	}
	return labels, nil
}

// apply adds the label and the policy to a spec. It returns job.ErrRefused if the spec names others.
func (h Held) apply(spec *job.Spec) (err error) {
	if spec.Labels, err = h.Labels(spec.Labels); err != nil || h.Policy == "" {
		return err
	}
	name, err := json.Marshal(h.Policy)
	if err != nil {
		return fmt.Errorf("encode the name of a policy: %w", err)
	}
	if asked := bytes.TrimSpace(spec.Policy); len(asked) > 0 && string(asked) != "null" {
		var given string
		if json.Unmarshal(asked, &given) != nil || given != h.Policy {
			return fmt.Errorf("%w: policy: this key is restricted to the policy %q; name it, or leave policy out", job.ErrRefused, h.Policy)
		}
	}
	spec.Policy = name
	return nil
}
