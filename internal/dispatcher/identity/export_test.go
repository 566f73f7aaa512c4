package identity

// Size returns the number of known keys.
func (k *Keys) Size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.live)
}
