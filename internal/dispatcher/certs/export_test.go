package certs

// LookAlways makes f check the files for each connection.
func (f *Files) LookAlways() { f.look = 0 }
