package sysmon

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/assay-run/assay/internal/testenv"
)

func TestCalm(t *testing.T) {
	testenv.Needs(t, "root")
	RelaxTimer()
	got, err := os.ReadFile("/proc/" + strconv.Itoa(thread()) + "/timerslack_ns")
	if err != nil {
		t.Fatal(err)
	}
	if want := slack; strings.TrimSpace(string(got)) != want && os.Getuid() == 0 {
		t.Errorf("the slack is %s, want %s", got, want)
	}
	mine, err := os.ReadFile("/proc/self/timerslack_ns")
	if err != nil || strings.TrimSpace(string(mine)) == slack {
		t.Errorf("the main thread has it, too: %s, %v", mine, err)
	}
}
