package language

import "time"

// Paths in a sandbox.
const (
	Dir = "/workspace"      // sources, by relative path; working directory of compilers and programs
	Out = "/workspace/.out" // output of compilers; names of sources cannot start with a dot
)

// Python is the language of programs and solutions without a catalogue entry.
const Python = "python"

// Limit returns the default time limit of the step.
func (s *Step) Limit() time.Duration {
	if s.Wall > 0 {
		return s.Wall
	}
	return 10 * time.Second
}
