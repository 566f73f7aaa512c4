package grade

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/assay-run/assay/pkg/job"
	"github.com/assay-run/assay/pkg/runtime"
)

// opinion is the judgement of a checker.
type opinion struct {
	accepted bool
	share    *float64 // of the full score, 0 to 1; nil: no scores
	message  string   // reason of the rejection
	failed   string   // failure of the checker; "" if none
	own      bool     // the checker reported the failure itself
}

// broke reports whether the checker failed without blaming the tests.
func (o opinion) broke() bool { return o.failed != "" && !o.own }

// accepts reports whether the checker gave a full or partial pass.
func (o opinion) accepts() bool {
	return o.failed == "" && (o.share == nil && o.accepted || o.share != nil && *o.share > 0)
}

// read interprets a checker's end. Ends outside its protocol, and ends that it did not choose, are
// failures of the checker.
func (k *checker) read(rep *runtime.Report, said notes) opinion {
	if text := strings.TrimSpace(said[judgeError]); text != "" && k.Protocol != job.Testlib {
		return opinion{failed: "the " + k.name + " reports that the tests are wrong: " + printable(text), own: true}
	}
	if rep.Outcome != job.Succeeded && rep.Outcome != job.Failed || rep.ExitCode == nil {
		return opinion{failed: fmt.Sprintf("the %s did not come to a verdict: %s", k.name, cmp.Or(rep.Message, string(rep.Outcome)))}
	}
	if k.Protocol == job.Testlib {
		return k.readTestlib(*rep.ExitCode, rep.Stderr.Text)
	}
	return k.readKattis(*rep.ExitCode, rep, said)
}

// The exit codes of the protocol kattis.
const (
	kattisAccepted = 42
	kattisWrong    = 43

	// judgeError is the file in which a kattis checker reports a failure of its own or of the tests.
	judgeError = "judgeerror.txt"
)

func (k *checker) readKattis(code int, rep *runtime.Report, said notes) opinion {
	switch code {
	case kattisAccepted:
		score, ok := said["score.txt"]
		if !ok {
			return opinion{accepted: true}
		}
		return k.scored(score, "score.txt", printable(said["judgemessage.txt"]))
	case kattisWrong:
		return opinion{message: "wrong answer" + because(cmp.Or(printable(said["judgemessage.txt"]), printable(said["teammessage.txt"]), printable(tail(rep.Stderr.Text))))}
	}
	return opinion{failed: fmt.Sprintf("the %s ended with exit code %d, which is neither 42 nor 43%s", k.name, code, because(rep.Message, tail(rep.Stderr.Text)))}
}

// testlibFailed is the exit code of a testlib.h checker for a wrong checker or answer, for example
// if the output is better.
const testlibFailed = 3

// readTestlib interprets an exit code of testlib.h.
func (k *checker) readTestlib(code int, said string) opinion {
	said = strings.TrimSpace(said)
	message := because(printable(said))
	switch code {
	case 0:
		return opinion{accepted: true}
	case 1, 2, 4, 8: // wrong, wrong format, more than expected, less than expected
		if strings.HasPrefix(said, "Traceback (most recent call last)") { // testlib's own messages start with the verdict
			return opinion{failed: "the " + k.name + " raised an exception" + because(crashLine(said))}
		}
		return opinion{message: "wrong answer" + message}
	case 7:
		score, comment, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(said, "points")), " ")
		return k.scored(score, "the points", printable(comment))
	}
	return opinion{failed: fmt.Sprintf("the %s ended with exit code %d, which is its own failure%s", k.name, code, message), own: code == testlibFailed}
}

// scored parses a score and divides it by the full score. in names the source of a malformed score.
func (k *checker) scored(text, in, message string) opinion {
	full := cmp.Or(k.MaxScore, 1)
	points, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(points >= 0 && points <= full) {
		return opinion{failed: fmt.Sprintf("the %s gave %s as %s, which is not a number from 0 to its max_score, %g", k.name, printable(text), in, full), own: true}
	}
	share := points / full
	return opinion{share: &share, message: fmt.Sprintf("it has %g of %g points%s", points, full, because(message))}
}

// because returns the first message that is not empty, after ": ".
func because(messages ...string) string {
	if m := cmp.Or(messages...); m != "" {
		return ": " + m
	}
	return ""
}

// printable converts a checker's text, which may include solution output, to one visible line.
func printable(s string) string {
	return short(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && !unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) {
			return '\uFFFD'
		}
		return r
	}, s), "")
}
