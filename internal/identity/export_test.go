package identity

// Size returns how many keys are known.
func (k *Keys) Size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.live)
}
