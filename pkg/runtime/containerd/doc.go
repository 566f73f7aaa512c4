// Package containerd runs attempts in containerd containers. It and the packages
// beneath it, image most of all, are the only homes of the containerd client, and
// work with servers from 1.6 on.
//
// Isolation task is one container per attempt. What makes one is paid once per
// image and host wherever it can be: the image's root file system is mounted
// read-only once and shared by all its containers, so that a slot costs no
// snapshot. A slot is a container that is already running, whose guest (see
// package internal/guest) is connected and waits; the job's own limits are
// written to its control group when it takes the slot.
//
// What a slot of task consists of, and what removes it after a crash:
//
//	thing                                      removed by
//	-----------------------------------------  -----------------------------------
//	container and task, labelled assay.dev/…   the sweep, which lists the labels
//	process 1 (the guest) and all below it     the end of the worker's connection
//	control groups /assay-<instance>/<slot>…   the sweep, by path
//	tmpfs at <state>/run/slots/<slot>          the sweep, by path
//
// An instance is one state directory: at most one Runtime uses it at a time.
package containerd
