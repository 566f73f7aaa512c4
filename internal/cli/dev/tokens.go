package dev

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// tenantOfFleet is the tenant of the fleet's own token. No job belongs to this tenant.
const tenantOfFleet = "assay-dev"

// ownToken makes the token that the fleet uses with its own dispatcher, if that requires tokens.
// Only an operator sees workers, so a token of the user would not be sufficient. It returns the
// setting for the dispatcher, to be added after all others, or nothing if tokens are not required.
func (f *Fleet) ownToken() (env []string, err error) {
	tokens := f.inherited("ASSAY_TOKENS")
	if path, ok := strings.CutPrefix(tokens, "@"); ok {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("ASSAY_TOKENS: %w", err)
		}
		tokens = string(text)
	}
	if strings.TrimSpace(tokens) == "" { // an empty file: the dispatcher reads it too and rejects it
		return nil, nil
	}
	f.token = rand.Text()
	// A separate line: the last line of a file may be a comment.
	return []string{"ASSAY_TOKENS=" + tokens + "\n" + f.token + "=" + tenantOfFleet + ":operator"}, nil
}

// OperatorToken returns the operator token that the fleet made for itself. It is empty if the
// dispatcher has no tokens: then the user of this process is an admin.
func (f *Fleet) OperatorToken() string { return f.token }

// inherited returns the dispatcher's value of name: from the overriding environment, or else from
// this process.
func (f *Fleet) inherited(name string) string { return f.setting(name, os.Getenv(name)) }

// OwnTokens returns the tokens of a fleet with one user: a token, and the Unix user of this
// program, who needs no token over loopback. Under sudo that includes the user who called it.
func OwnTokens(token string, env func(string) string) string {
	const admin = "=default:admin" // the tenant of a fleet without tokens
	all := []string{token + admin, "uid:" + strconv.Itoa(os.Geteuid()) + admin}
	if uid, err := strconv.Atoi(env("SUDO_UID")); err == nil && os.Geteuid() == 0 {
		all = append(all, "uid:"+strconv.Itoa(uid)+admin)
	}
	return strings.Join(all, ",")
}
