// Package format is how jobs and results are written into columns that one statement fills
// and another reads: a result in two parts, the caps of a job as a lane, the outcomes as
// counters.
//
// It guards that what is read is what was written, and that reading parses nothing. What is
// no JSON object is job.ErrInvalid before it is stored; nothing fails after that.
package format
