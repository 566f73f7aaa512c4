package main

import (
	"math"
	"slices"
	"time"
)

// Rate returns n per second.
func Rate(n int, d time.Duration) float64 { return Round(float64(n)/max(d.Seconds(), 1e-9), 2) }

// Round rounds to that many decimal places.
func Round(f float64, digits int) float64 {
	p := math.Pow10(digits)
	return math.Round(f*p) / p
}

// Percentile returns the q-quantile of values by the nearest rank, or 0 without values.
func Percentile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(q*float64(len(sorted)))) - 1
	return Round(sorted[min(max(rank, 0), len(sorted)-1)], 3)
}

// Mean returns the arithmetic mean, or 0 without values.
func Mean(of []float64) (m float64) {
	for _, v := range of {
		m += v / float64(len(of))
	}
	return m
}
