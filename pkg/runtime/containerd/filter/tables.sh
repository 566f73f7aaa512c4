#!/bin/sh
# Writes the names and numbers of system calls that golang.org/x/sys knows.
set -eu
dir=$(go list -m -f '{{.Dir}}' golang.org/x/sys)
for arch in amd64 arm64; do
	awk '/^\tSYS_[A-Z0-9_]+ += [0-9]+$/ {print tolower(substr($1,5)), $3}' "$dir/unix/zsysnum_linux_$arch.go" >"syscalls_$arch.txt"
done
