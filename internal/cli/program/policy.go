package program

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// ReadPolicy returns the value of --policy: a file's content, or a name.
func ReadPolicy(policy string) (json.RawMessage, error) {
	if policy == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(policy)
	switch {
	case err == nil && json.Valid(raw):
		return raw, nil
	case err == nil:
		return nil, fmt.Errorf("--policy %s: the file is not JSON", policy)
	case os.IsNotExist(err) && !strings.ContainsAny(policy, "./"):
		return json.Marshal(policy)
	}
	return nil, fmt.Errorf("--policy: %w", err)
}

// WithIsolation sets the isolation of a policy. stored looks up a policy by name.
func WithIsolation(ctx context.Context, stored func(context.Context, string) (json.RawMessage, error), raw json.RawMessage, isolation string) (json.RawMessage, error) {
	var name string
	if json.Unmarshal(raw, &name) == nil && name != "" {
		var err error
		if raw, err = stored(ctx, name); err != nil {
			return nil, err
		}
	}
	fields := map[string]json.RawMessage{}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &fields); err != nil {
			return nil, fmt.Errorf("--policy: must be an object: %w", err)
		}
	}
	level, err := json.Marshal(isolation)
	if err != nil {
		return nil, err
	}
	fields["isolation"] = level
	return json.Marshal(fields)
}
