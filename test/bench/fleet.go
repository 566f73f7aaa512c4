package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// child returns the fleet's process of that program.
func (t *target) child(program string) (process, error) {
	if t.cmd == nil {
		return process{}, errNotOurs
	}
	all, err := readProcesses()
	if err != nil {
		return process{}, err
	}
	for _, p := range descendants(all, t.cmd.Process.Pid) {
		if filepath.Base(p.Args[0]) == program {
			return p, nil
		}
	}
	return process{}, fmt.Errorf("the fleet has no process %s", program)
}

// database returns the address of the fleet's database.
func (t *target) database() (databaseURL, error) {
	dispatcher, err := t.child("dispatcher")
	if err != nil {
		return "", err
	}
	url, err := dispatcher.Env("ASSAY_DATABASE_URL")
	return databaseURL(url), err
}

// controlPlaneCPU returns the CPU time so far of the dispatcher, Postgres and NATS (which runs
// inside `assay dev`): of the whole tree without the worker and containerd.
func (t *target) controlPlaneCPU() (time.Duration, error) {
	var not []int
	for _, program := range []string{"worker", "containerd"} {
		if p, err := t.child(program); err == nil {
			not = append(not, p.PID)
		} else if err == errNotOurs {
			return 0, err
		}
	}
	all, err := readProcesses()
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, p := range descendants(all, t.cmd.Process.Pid, not...) {
		sum += p.CPU
	}
	return sum, nil
}
