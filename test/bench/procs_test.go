package main

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestProcessesBelow(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", "sleep 60 & wait") // a child and a grandchild
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() {
		all, _ := readProcesses()
		for _, p := range descendants(all, cmd.Process.Pid) {
			if q, err := os.FindProcess(p.PID); err == nil {
				_ = q.Kill()
			}
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); ; <-tick.C {
		all, err := readProcesses()
		if err != nil {
			t.Fatal(err)
		}
		family := descendants(all, cmd.Process.Pid)
		if len(family) == 2 && family[1].Args[0] == "sleep" && family[1].Parent == cmd.Process.Pid {
			if left := descendants(all, cmd.Process.Pid, family[1].PID); len(left) != 1 {
				t.Errorf("without the child: %+v", left)
			}
			return
		}
		if time.Now().After(end) {
			t.Fatalf("family = %+v", family)
		}
	}
}

func TestOwnProcess(t *testing.T) {
	all, err := readProcesses()
	if err != nil {
		t.Fatal(err)
	}
	me := all[os.Getpid()]
	if me.Parent != os.Getppid() || len(me.Args) == 0 {
		t.Errorf("me = %+v", me)
	}
	if kb, err := me.Kilobytes("status", "VmHWM"); err != nil || kb < 1000 {
		t.Errorf("VmHWM = %d, %v", kb, err)
	}
	if _, err := me.Kilobytes("status", "VmNothing"); err == nil {
		t.Error("a field that does not exist was found")
	}
	if v, err := me.Env("PATH"); err != nil || v == "" {
		t.Errorf("PATH = %q, %v", v, err)
	}
}
