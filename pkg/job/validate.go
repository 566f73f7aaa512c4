package job

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DecodeSpec reads a client's job, fills in the defaults and validates it. Its errors are
// *FieldError for the first wrong field. It only checks that the policy is an object or a name;
// package policy does the rest.
func DecodeSpec(raw []byte) (Spec, error) {
	if len(raw) > int(MaxSpec) {
		return Spec{}, Invalid("", "is %d bytes; a job has at most %d, upload larger inputs as blobs", len(raw), MaxSpec)
	}
	var s Spec
	if err := Decode(raw, "", &s); err != nil {
		return Spec{}, err
	}
	s.setDefaults()
	return s, s.Validate()
}

func (s *Spec) setDefaults() {
	if s.Image == "" {
		s.Image = DefaultImage
	}
	if s.Retry.MaxAttempts == 0 {
		s.Retry.MaxAttempts = 1
	}
	if string(s.Policy) == "null" {
		s.Policy = nil
	}
}

// Validate checks a Spec from any source. An empty image and zero attempts stand for their
// defaults. Its errors are *FieldError.
func (s Spec) Validate() error {
	if p := badName(s.Name, MaxName); p != "" && s.Name != "" {
		return Invalid("name", "%s", p)
	}
	if err := s.validateLabels(); err != nil {
		return err
	}
	if p := badName(s.Pool, MaxRequired); p != "" && s.Pool != "" {
		return Invalid("pool", "%s", p)
	}
	if err := s.validateRequires(); err != nil {
		return err
	}
	if p := badImage(s.Image); p != "" {
		return Invalid("image", "%s", p)
	}
	if s.Priority < -MaxPriority || s.Priority > MaxPriority {
		return Invalid("priority", "must be %d to %d, not %d", -MaxPriority, MaxPriority, s.Priority)
	}
	if err := s.Program.validate(); err != nil {
		return err
	}
	if err := validateFiles(s.Files); err != nil {
		return err
	}
	if len(s.Policy) > 0 && s.Policy[0] != '{' && s.Policy[0] != '"' {
		return Invalid("policy", "must be an object or the name of a stored policy")
	}
	if err := s.Retry.validate(); err != nil {
		return err
	}
	if s.ExpiresIn < 0 || s.ExpiresIn > MaxExpiresIn {
		return Invalid("expires_in", "must be 0s to %s, not %s", MaxExpiresIn, s.ExpiresIn)
	}
	return nil
}

func (s Spec) validateLabels() error {
	if len(s.Labels) > MaxLabels {
		return Invalid("labels", "has %d labels; at most %d", len(s.Labels), MaxLabels)
	}
	return each("labels", s.Labels, func(k, v string) string {
		if p := badName(k, MaxName); p != "" {
			return "the key " + p
		}
		if v == "" {
			return ""
		}
		return badName(v, MaxName)
	})
}

func (s Spec) validateRequires() error {
	if len(s.Requires) > MaxRequires {
		return Invalid("requires", "has %d labels; at most %d", len(s.Requires), MaxRequires)
	}
	return each("requires", s.Requires, func(k, v string) string {
		if p := badName(k, MaxRequired); p != "" {
			return "the label " + p
		}
		return badName(v, MaxRequired)
	})
}

func (r Retry) validate() error {
	if r.MaxAttempts < 0 || r.MaxAttempts > MaxAttempts {
		return Invalid("retry.max_attempts", "must be 1 to %d, not %d", MaxAttempts, r.MaxAttempts)
	}
	for _, o := range r.On {
		switch {
		case !o.Valid():
			return Invalid("retry.on", "%q is not an outcome", Clip(string(o), 40))
		case o == Succeeded || o == OutcomeCanceled || o == Expired || o == Lost:
			return Invalid("retry.on", "%s is never retried; infrastructure failures are retried without using up attempts", o)
		}
	}
	return nil
}

func validateFiles(files map[string]File) error {
	if len(files) > MaxFiles {
		return Invalid("files", "has %d files; at most %d", len(files), MaxFiles)
	}
	return each("files", files, func(p string, f File) string {
		if bad := badPath(p); bad != "" {
			return "the path " + bad
		}
		for dir := path.Dir(p); dir != "/" && len(files) > 1; dir = path.Dir(dir) {
			if _, ok := files[dir]; ok {
				return "lies below " + dir + ", which is also a file"
			}
		}
		return f.problem()
	})
}

// each checks every entry of a table. It reports the wrong entry with the lowest key, so that the
// same input gives the same error.
func each[V any](at string, m map[string]V, problem func(k string, v V) string) error {
	var worst, what string
	for k, v := range m {
		if p := problem(k, v); p != "" && (what == "" || k < worst) {
			worst, what = k, p
		}
	}
	if what == "" {
		return nil
	}
	return &FieldError{Field: join(at, key(worst)), Problem: what}
}

// The functions below return the problem of a value, or "".

// badText checks text that reaches the program as a C string or as source.
func badText(s string, limit int) string {
	switch {
	case len(s) > limit:
		return "is " + Size(len(s)).String() + " bytes; at most " + Size(limit).String()
	case strings.IndexByte(s, 0) >= 0:
		return "must not contain NUL bytes"
	case !utf8.ValidString(s):
		return "is not valid UTF-8"
	}
	return ""
}

// badName checks text that people see in lists and terminals.
func badName(s string, limit int) string {
	if s == "" {
		return "must not be empty"
	}
	if p := badText(s, limit); p != "" {
		return p
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "must not contain control characters"
	}
	return ""
}

func badImage(s string) string {
	if s == "" {
		return "" // the default
	}
	if p := badName(s, MaxImage); p != "" {
		return p
	}
	ok := func(c rune) bool {
		return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("._-/:@", c)
	}
	if strings.ContainsFunc(s, func(c rune) bool { return !ok(c) }) || strings.ContainsRune("._-/:@", rune(s[0])) {
		return "must be an image reference such as python or registry.example.org/team/image:1.2"
	}
	return ""
}

// badPath checks a path inside the sandbox.
func badPath(p string) string {
	if bad := badName(p, MaxPath); bad != "" {
		return bad
	}
	switch {
	case p[0] != '/':
		return "must be absolute, such as /workspace/" + path.Base(p)
	case path.Clean(p) != p:
		return "must be plain: no //, no . or .., no / at the end"
	case p == "/":
		return "must not be the root directory"
	}
	for part := range strings.SplitSeq(p, "/") {
		if len(part) > 255 {
			return "has a part of more than 255 bytes"
		}
	}
	return ""
}
