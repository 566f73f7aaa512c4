package filter

import (
	_ "embed"

	"golang.org/x/sys/unix"
)

const nativeArch = unix.AUDIT_ARCH_AARCH64

//go:embed syscalls_arm64.txt
var table string
