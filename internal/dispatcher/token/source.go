package token

import (
	"context"
	"fmt"
	"sync"
)

// Source provides the key of a fleet and reads it on first use. It is safe for concurrent use.
type Source struct {
	Load func(ctx context.Context) ([]byte, error)

	mu  sync.Mutex
	key []byte
}

// Keeper returns a Keeper with the key.
func (s *Source) Keeper(ctx context.Context) (Keeper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key == nil {
		key, err := s.Load(ctx)
		if err != nil {
			return Keeper{}, fmt.Errorf("load the fleet's key: %w", err)
		}
		s.key = key
	}
	return Keeper{Key: s.key}, nil
}
