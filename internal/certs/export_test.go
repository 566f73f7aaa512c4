package certs

// LookAlways has the files be looked at for each connection.
func (f *Files) LookAlways() { f.look = 0 }
