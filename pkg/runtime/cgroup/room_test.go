package cgroup

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/assay-run/assay/internal/testenv"
)

// v2Root is where cgroup v2 is mounted on this host, as the only one or beside v1.
func v2Root(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{DefaultRoot, filepath.Join(DefaultRoot, "unified")} {
		if _, err := os.Stat(filepath.Join(dir, "cgroup.controllers")); err == nil {
			return dir
		}
	}
	t.Skip("this host has no cgroup v2, and so nothing that takes room")
	return ""
}

// The first group of a container is left without processes, so that it can hand
// controllers down.
func TestMakeRoom(t *testing.T) {
	testenv.Needs(t, "root")
	dir := filepath.Join(v2Root(t), "assay-room-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sleep := exec.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			_ = os.Remove(filepath.Join(dir, leaf))
			if err := os.Remove(dir); err == nil || time.Now().After(end) {
				return
			}
		}
	})
	if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(sleep.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be done already
		if err := MakeRoom(dir); err != nil {
			t.Fatal(err)
		}
	}
	if pids, err := readPids(filepath.Join(dir, "cgroup.procs")); err != nil || len(pids) > 0 {
		t.Errorf("processes %v are left (%v)", pids, err)
	}
	if pids, err := readPids(filepath.Join(dir, leaf, "cgroup.procs")); err != nil || !slices.Equal(pids, []int{sleep.Process.Pid}) {
		t.Errorf("the leaf has %v (%v)", pids, err)
	}
}

// Version 1, and the first group of a host, need no room.
func TestNoRoomIsNeeded(t *testing.T) {
	dir := t.TempDir()
	if err := MakeRoom(dir); err != nil {
		t.Fatal(err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) > 0 {
		t.Errorf("it made %v (%v)", all, err)
	}
}
