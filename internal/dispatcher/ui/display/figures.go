package display

import (
	"fmt"
	"strconv"
	"time"

	"github.com/assay-run/assay/pkg/job"
)

// Count formats a number with narrow no-break spaces between thousands.
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// Bytes formats a size in the largest fitting unit.
func Bytes(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	v, unit := float64(n)/1024, 0
	for ; v >= 1024 && unit < len(units)-1; unit++ {
		v /= 1024
	}
	return short(v) + " " + units[unit:unit+1] + "iB"
}

// short formats three digits.
func short(v float64) string {
	switch {
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// Millis formats a duration in milliseconds.
func Millis(ms float64) string {
	switch {
	case ms < 0:
		return "0 ms"
	case ms < 1000:
		return short(ms) + " ms"
	}
	return Duration(time.Duration(ms * float64(time.Millisecond)))
}

// Duration formats a duration in at most two units.
func Duration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < time.Second:
		return short(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Minute:
		return short(d.Seconds()) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// Time formats a time in UTC, because the server does not have the reader's time zone.
func Time(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// Ago formats the time from t to now in one unit, such as "3 min ago" or "in 2 h".
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	text := span(d.Abs())
	switch {
	case t.IsZero():
		return "–"
	case d.Abs() < time.Second:
		return "now"
	case d < 0:
		return "in " + text
	}
	return text + " ago"
}

// span formats a duration in one unit, rounded down.
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d d", int(d.Hours())/24)
}

// Percent formats a share of a whole.
func Percent(part, whole int64) string {
	switch {
	case whole <= 0:
		return "–"
	case part == 0:
		return "0 %"
	case part == whole:
		return "100 %"
	}
	v := float64(part) * 100 / float64(whole)
	switch {
	case v < 0.1:
		return "< 0.1 %"
	case v > 99.9:
		return "> 99.9 %"
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " %"
}

// Words formats the name of an outcome or a state.
func Words[T ~string](name T) string {
	out := []byte(name)
	for i, c := range out {
		if c == '_' {
			out[i] = ' '
		}
	}
	return string(out)
}

// Kind returns the colour class of an outcome: success, failure, stopped at a limit, canceled, or no verdict on the
// program.
func Kind(o job.Outcome) string {
	switch {
	case o == "":
		return "none"
	case o == job.Succeeded:
		return "good"
	case o == job.OutcomeCanceled:
		return "off"
	case !o.OfProgram():
		return "infra"
	case o == job.Failed || o == job.Exception || o == job.CompileError || o == job.Signaled:
		return "bad"
	}
	return "stop"
}
