package main

import "testing"

func TestPercentile(t *testing.T) {
	ms := []float64{5, 1, 3, 2, 4}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{{ms, 0.5, 3}, {ms, 0.99, 5}, {ms, 0.01, 1}, {ms[:1], 0.5, 5}, {nil, 0.5, 0}} {
		if got := Percentile(c.values, c.q); got != c.want {
			t.Errorf("Percentile(%v, %v) = %v, want %v", c.values, c.q, got, c.want)
		}
	}
	if ms[0] != 5 {
		t.Error("percentile sorted its argument")
	}
}
