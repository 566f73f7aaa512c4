package job

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// Size is a number of bytes. In JSON it is a Kubernetes quantity ("256Mi", "1.5G", "4096") or a
// plain integer.
type Size int64

// Common sizes.
const (
	Byte Size = 1
	KiB       = 1024 * Byte
	MiB       = 1024 * KiB
	GiB       = 1024 * MiB
)

var sizeUnits = []struct {
	suffix string
	factor int64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50},
	{"Ei", 1 << 60},
	{"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}, {"", 1},
}

// ParseSize reads a Kubernetes quantity of whole, non-negative bytes. The error wraps ErrInvalid.
func ParseSize(s string) (Size, error) {
	bad := fmt.Errorf("%w: size %q is not a quantity such as 256Mi, 1.5G or 4096", ErrInvalid, Clip(s, 40))
	for _, u := range sizeUnits {
		num, ok := strings.CutSuffix(s, u.suffix)
		if !ok {
			continue
		}
		if num == "" || len(num) > 24 || strings.Trim(num, "0123456789.") != "" {
			return 0, bad
		}
		r, ok := new(big.Rat).SetString(num)
		if !ok {
			return 0, bad
		}
		r.Mul(r, new(big.Rat).SetInt64(u.factor))
		if u.factor == 1 && !r.IsInt() {
			return 0, bad
		}
		n := new(big.Int).Quo(r.Num(), r.Denom())
		if !n.IsInt64() {
			return 0, fmt.Errorf("%w: size %q is out of range: sizes are below 8Ei", ErrInvalid, Clip(s, 40))
		}
		return Size(n.Int64()), nil
	}
	return 0, bad
}

// String returns the shortest exact quantity with a binary suffix.
func (s Size) String() string {
	for i := 5; i >= 0; i-- {
		if f := Size(sizeUnits[i].factor); s != 0 && s%f == 0 {
			return fmt.Sprintf("%d%s", s/f, sizeUnits[i].suffix)
		}
	}
	return fmt.Sprintf("%d", int64(s))
}

// MarshalJSON writes the quantity as a string.
func (s Size) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON reads a quantity or a whole number; null changes nothing.
func (s *Size) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
	} else {
		text = string(b)
	}
	n, err := ParseSize(text)
	if err != nil {
		return err
	}
	*s = n
	return nil
}

// Duration is a time.Duration. In JSON it is a Go duration string ("1.5s").
type Duration time.Duration

// D returns d as a time.Duration.
func (d Duration) D() time.Duration { return time.Duration(d) }

func (d Duration) String() string { return time.Duration(d).String() }

// MarshalJSON writes a Go duration string.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(d.String()) }

// UnmarshalJSON reads a Go duration string. It rejects bare numbers, because their unit is unclear.
// Null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return fmt.Errorf("%w: duration %s must be a string with a unit (ms, s, m, h) such as \"1.5s\"", ErrInvalid, Clip(string(b), 40))
	}
	v, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*d = Duration(v)
	return nil
}

// written matches the syntax of durations of any length.
var written = regexp.MustCompile(`^[-+]?((\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$`)

// ParseDuration reads a Go duration string. The error wraps ErrInvalid and distinguishes values out
// of range from bad syntax.
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	switch {
	case err == nil:
		return d, nil
	case written.MatchString(text):
		return 0, fmt.Errorf("%w: duration %q is out of range: the maximum is %dh", ErrInvalid, Clip(text, 40), int64(math.MaxInt64/time.Hour))
	}
	return 0, fmt.Errorf("%w: duration %q must be numbers with units, such as \"1.5s\" or \"1h30m\"; units are ms, s, m and h", ErrInvalid, Clip(text, 40))
}

// Milliseconds returns d in milliseconds, for reporting.
func Milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/float64(time.Microsecond)) / 1000
}
