package language

import "time"

// Where things are in a sandbox.
const (
	Dir = "/workspace"      // sources, by their relative paths; where compilers and programs begin
	Out = "/workspace/.out" // what is compiled; sources have no names that begin with a dot
)

// Python is the language of programs and solutions that need no catalogue.
const Python = "python"

// Limit is how long the step may take where nobody says.
func (s *Step) Limit() time.Duration {
	if s.Wall > 0 {
		return s.Wall
	}
	return 10 * time.Second
}
