// Declares that functions without a body are meant: see fork_linux.go.
