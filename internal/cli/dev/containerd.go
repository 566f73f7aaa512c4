package dev

import "github.com/assay-run/assay/internal/daemon"

// Containerd is a running private containerd.
type Containerd = daemon.Containerd

// ContainerdConfig configures a containerd. Only Dir is required.
type ContainerdConfig = daemon.ContainerdConfig

// StartContainerd runs a containerd of our own beside any that the system has.
var StartContainerd = daemon.StartContainerd

// ContainerdAddress returns the address of the containerd of a directory, if one runs there.
var ContainerdAddress = daemon.ContainerdAddress
